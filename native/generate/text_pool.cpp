// SPDX-License-Identifier: Apache-2.0
#include "generate/text_pool.hpp"

#include <array>
#include <string_view>

namespace spillway {

namespace {

constexpr std::array<std::string_view, 64> kWords = {
    "amber",  "anchor", "ample",  "arrive",  "basin",   "before",  "bright", "canal",   "carry",  "cedar",   "clear",
    "cliff",  "coast",  "creek",  "current", "delta",   "drift",   "early",  "eastern", "ebb",    "estuary", "falls",
    "flow",   "ford",   "gather", "gauge",   "gentle",  "gorge",   "harbor", "heavy",   "inlet",  "island",  "lagoon",
    "level",  "locks",  "marsh",  "meadow",  "mill",    "narrow",  "north",  "over",    "pebble", "pier",    "quiet",
    "rapid",  "reed",   "river",  "rise",    "sandy",   "shallow", "sluice", "south",   "spring", "steady",  "stone",
    "stream", "swift",  "tide",   "toward",  "turbine", "valley",  "water",  "weir",    "western"};

}  // namespace

const TextPool& TextPool::instance() {
    static const TextPool pool;
    return pool;
}

TextPool::TextPool() {
    text_.reserve(kBytes + 16);
    RandomSequence random(random_stream(0, 0), 0);
    while (text_.size() < kBytes) {
        const uint64_t bits = random.next();
        text_ += kWords[bits % kWords.size()];
        text_ += bits >> 61 == 0 ? ", " : " ";
    }
    text_.resize(kBytes);
}

}  // namespace spillway
