// SPDX-License-Identifier: Apache-2.0
#include "generate/vocabularies.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {

namespace {

using Words = std::vector<std::string>;

struct Nation {
    const char* name;
    int32_t region;
};

constexpr std::array<Nation, 25> kNations = {
    {{"ALGERIA", 0},      {"ARGENTINA", 1},  {"BRAZIL", 1},  {"CANADA", 1},         {"EGYPT", 4},
     {"ETHIOPIA", 0},     {"FRANCE", 3},     {"GERMANY", 3}, {"INDIA", 2},          {"INDONESIA", 2},
     {"IRAN", 4},         {"IRAQ", 4},       {"JAPAN", 2},   {"JORDAN", 4},         {"KENYA", 0},
     {"MOROCCO", 0},      {"MOZAMBIQUE", 0}, {"PERU", 1},    {"CHINA", 2},          {"ROMANIA", 3},
     {"SAUDI ARABIA", 4}, {"VIETNAM", 2},    {"RUSSIA", 3},  {"UNITED KINGDOM", 3}, {"UNITED STATES", 1}}};

Words nation_names() {
    Words names;
    for (const Nation& nation : kNations) names.emplace_back(nation.name);
    return names;
}

// Every word of the one list before every word of the other; the last one changes fastest.
Words pairs_of(const Words& firsts, const Words& seconds, const char* between = " ") {
    Words pairs;
    for (const auto& first : firsts) {
        for (const auto& second : seconds) pairs.push_back(first + between + second);
    }
    return pairs;
}

Words part_type_names() {
    const Words sizes = {"STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"};
    const Words finishes = {"ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"};
    return pairs_of(pairs_of(sizes, finishes), {"TIN", "NICKEL", "BRASS", "STEEL", "COPPER"});
}

Words container_names() {
    return pairs_of({"SM", "LG", "MED", "JUMBO", "WRAP"}, {"CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"});
}

Words color_names() {
    return {"almond",    "antique",    "aquamarine", "azure",     "beige",     "bisque",     "black",     "blanched",
            "blue",      "blush",      "brown",      "burlywood", "burnished", "chartreuse", "chiffon",   "chocolate",
            "coral",     "cornflower", "cornsilk",   "cream",     "cyan",      "dark",       "deep",      "dim",
            "dodger",    "drab",       "firebrick",  "floral",    "forest",    "frosted",    "gainsboro", "ghost",
            "goldenrod", "green",      "grey",       "honeydew",  "hot",       "indian",     "ivory",     "khaki",
            "lace",      "lavender",   "lawn",       "lemon",     "light",     "lime",       "linen",     "magenta",
            "maroon",    "medium",     "metallic",   "midnight",  "mint",      "misty",      "moccasin",  "navajo",
            "navy",      "olive",      "orange",     "orchid",    "pale",      "papaya",     "peach",     "peru",
            "pink",      "plum",       "powder",     "puff",      "purple",    "red",        "rose",      "rosy",
            "royal",     "saddle",     "salmon",     "sandy",     "seashell",  "sienna",     "sky",       "slate",
            "smoke",     "snow",       "spring",     "steel",     "tan",       "thistle",    "tomato",    "turquoise",
            "violet",    "wheat",      "white",      "yellow"};
}

Words with_digits(const Words& prefixes) {
    return pairs_of(prefixes, {"1", "2", "3", "4", "5"}, "");
}

Words numbers(int32_t first, int32_t last) {
    Words words;
    for (int32_t number = first; number <= last; ++number) words.push_back(std::to_string(number));
    return words;
}

// Nine letters of the nation, filled up with blanks, and a digit: "UNITED KI5".
Words city_names() {
    Words prefixes;
    for (const std::string& nation : nation_names()) {
        prefixes.push_back(nation.substr(0, 9));
        prefixes.back().resize(9, ' ');
    }
    return pairs_of(prefixes, numbers(0, SsbVocabularies::kCitiesOfNation - 1), "");
}

Words month_names() {
    return {"January", "February", "March",     "April",   "May",      "June",
            "July",    "August",   "September", "October", "November", "December"};
}

Words year_month_names() {
    Words names;
    for (int32_t year = 0; year < SsbVocabularies::kYears; ++year) {
        for (const std::string& month : month_names()) {
            names.push_back(month.substr(0, 3) + std::to_string(SsbVocabularies::kFirstYear + year));
        }
    }
    return names;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
    for (const auto& word : words_) longest_ = std::max(longest_, static_cast<uint32_t>(word.size()));
}

const TpchVocabularies& TpchVocabularies::instance() {
    static const TpchVocabularies all;
    return all;
}

TpchVocabularies::TpchVocabularies()
    : regions({"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}),
      nations(nation_names()),
      segments({"AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"}),
      manufacturers(with_digits({"Manufacturer#"})),
      brands(with_digits(with_digits({"Brand#"}))),
      part_types(part_type_names()),
      containers(container_names()),
      colors(color_names()),
      order_statuses({"F", "O", "P"}),
      priorities({"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"}),
      return_flags({"A", "N", "R"}),
      line_statuses({"F", "O"}),
      instructions({"DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"}),
      modes({"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"}) {}

const SsbVocabularies& SsbVocabularies::instance() {
    static const SsbVocabularies all;
    return all;
}

SsbVocabularies::SsbVocabularies()
    : manufacturers(with_digits({"MFGR#"})),
      categories(with_digits(with_digits({"MFGR#"}))),
      brands(pairs_of(with_digits(with_digits({"MFGR#"})), numbers(1, 40), "")),
      cities(city_names()),
      ship_priorities({"0"}),
      days({"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}),
      months(month_names()),
      year_months(year_month_names()),
      seasons({"Winter", "Spring", "Summer", "Fall", "Christmas"}) {}

int32_t region_of_nation(int32_t nation) {
    return kNations[static_cast<size_t>(nation)].region;
}

}  // namespace spillway
