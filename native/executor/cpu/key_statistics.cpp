// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/key_statistics.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <mutex>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "cpu/row/row_encoder.hpp"
#include "executor/cpu/morsel_reader.hpp"
#include "executor/cpu/partition.hpp"

namespace spillway {

namespace {

// Sample pieces: long enough that reading them is sequential, short enough that clustered keys do not fool the sample.
constexpr int64_t kPieceRows = 256;
// Samples for pairs have shorter ones: where both sides are sorted alike, rows of a piece have their partners in a
// piece or two of the other side, so that many short pieces tell more than few long ones.
constexpr int64_t kPairPieceRows = 32;
constexpr int64_t kMorselRows = 65536;

bool is_unsigned(const ColumnType& type) {
    return type.layout == Layout::kFixed && type.order == Order::kUnsigned;
}

struct Range {
    bool any = false;
    int64_t min = std::numeric_limits<int64_t>::max();
    int64_t max = std::numeric_limits<int64_t>::min();
    uint64_t nulls = 0;

    // Unsigned 64-bit values are compared with the top bit flipped.
    void add(uint64_t word, uint32_t sign_shift, uint64_t flip) {
        const int64_t value = static_cast<int64_t>((word << sign_shift) ^ flip) >> sign_shift;
        any = true;
        min = std::min(min, value);
        max = std::max(max, value);
    }
    void merge(const Range& other) {
        any = any || other.any;
        min = std::min(min, other.min);
        max = std::max(max, other.max);
        nulls += other.nulls;
    }
    // Exact enough for a share of another one.
    double span() const { return any ? static_cast<double>(max) - static_cast<double>(min) : 0; }
};

// How often each of at most `rows` words was seen: open addressing at a load of at most 1/2. Slots are few as long as
// the distinct words are, since fresh memory costs more than the rows of a sample: 16 Ki rows take 0.2 ms, and 0.5 with
// slots for all of them from the beginning. A node-based map spent 8 ms on 64 Ki rows.
class WordCounts {
  public:
    // It says how often its word was seen, and in which piece last; a count of 0 is a free slot.
    struct Slot {
        uint64_t word = 0;
        uint32_t count = 0;
        uint32_t piece = 0;
    };

    explicit WordCounts(int64_t rows)
        : slots_max_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows, kSlotsMin / 2)) * 2)),
          slots_(kSlotsMin) {}

    // piece: that of the sample which the word is from; those of a piece come one after the other.
    void add(uint64_t word, int64_t piece = 0) {
        if (distinct_ * 2 >= slots_.size() && slots_.size() < slots_max_) grow();
        const auto own = static_cast<uint32_t>(piece);
        Slot& slot = slots_[place_of(word)];
        if (slot.count == 0) ++distinct_;
        if (slot.count == 0 || slot.piece != own) ++piece_distinct_;
        slot.word = word;
        slot.piece = own;
        most_ = std::max(most_, ++slot.count);
    }
    const Slot& find(uint64_t word) const { return slots_[place_of(word)]; }
    uint64_t distinct() const { return distinct_; }
    // Those of each piece, added up.
    uint64_t piece_distinct() const { return piece_distinct_; }
    uint64_t most() const { return most_; }

  private:
    static constexpr size_t kSlotsMin = 2048;
    static constexpr size_t kSlotsFew = 32768;  // what grows further is likely to have a word for each row

    size_t place_of(uint64_t word) const {
        const uint64_t mask = slots_.size() - 1;
        uint64_t at = word & mask;  // words are mixed already
        while (slots_[at].count != 0 && slots_[at].word != word) at = (at + 1) & mask;
        return at;
    }
    void grow() {
        std::vector<Slot> larger(slots_.size() < kSlotsFew ? std::min(slots_.size() * 4, slots_max_) : slots_max_);
        slots_.swap(larger);
        for (const Slot& slot : larger)
            if (slot.count != 0) slots_[place_of(slot.word)] = slot;
    }

    size_t slots_max_;
    std::vector<Slot> slots_;
    uint64_t distinct_ = 0;
    uint64_t piece_distinct_ = 0;
    uint32_t most_ = 0;
};

class StatisticsReader {
  public:
    StatisticsReader(Source& source, const std::vector<KeySpec>& keys, MemoryBudget& budget, JobControl& control)
        : source_(source), budget_(budget), control_(control) {
        spec_.keys = keys;
        columns_ = columns_read(spec_);
        source.load_dictionaries(columns_, budget, control);
        layout_ = RowLayout::make(source.columns(), keys, {}, NullKeys::kDrop);
        ranged_ = layout_.mode == KeyMode::kWord && keys.size() == 1 && keys[0].kind == KeyKind::kInteger;
        if (!ranged_) return;
        const ColumnType& type = *source.columns()[static_cast<size_t>(keys[0].column)];
        flip_ = is_unsigned(type) && keys[0].width == 8 ? 1ULL << 63 : 0;
        shift_ = is_unsigned(type) ? 0 : 64 - 8 * static_cast<uint32_t>(keys[0].width);
    }

    void sample(int64_t rows_wanted, KeyStatistics& out) {
        WordCounts counts(std::min(rows_wanted + kPieceRows, source_.rows()));
        double piece_spans = 0;
        uint64_t pieces = 0;
        read_pieces(
            rows_wanted, kPieceRows, [](int64_t) { return 0.0; },
            [&](const EncodedRows& encoded, int64_t count, int64_t piece) {
                Range piece_range;
                add(encoded, count, piece_range);
                range_.merge(piece_range);
                piece_spans += piece_range.span();
                pieces += piece_range.any ? 1 : 0;
                for (int64_t r = 0; r < encoded.rows; ++r) counts.add(encoded.hash(r), piece);
                out.sampled_rows += static_cast<uint64_t>(encoded.rows);
            });
        out.sampled_distinct = counts.distinct();
        out.piece_distinct = counts.piece_distinct();
        if (pieces > 0 && range_.span() > 0) {
            out.piece_range_share = piece_spans / static_cast<double>(pieces) / range_.span();
        }
        if (out.sampled_rows > 0)
            out.heaviest_share = static_cast<double>(counts.most()) / static_cast<double>(out.sampled_rows);
    }

    // Rows in pieces, one in each of as many equal parts of the source: at `place` of the part, from 0 to 1.
    template <typename Place, typename Add>
    void read_pieces(int64_t rows_wanted, int64_t piece_rows, Place place, Add add_rows) {
        SourceReader reader(source_, columns_, budget_, control_);
        RowEncoder encoder(layout_, columns_, budget_);
        const int64_t pieces = std::max<int64_t>(1, rows_wanted / piece_rows);
        const double step = static_cast<double>(source_.rows()) / static_cast<double>(pieces);
        int64_t batch = 0;
        for (int64_t i = 0; i < pieces; ++i) {
            control_.check();
            const auto row = static_cast<int64_t>((static_cast<double>(i) + place(i)) * step);
            while (batch < source_.batch_count() && source_.first_row(batch) + source_.batch_rows(batch) <= row)
                ++batch;
            if (batch >= source_.batch_count()) break;
            const int64_t begin = row - source_.first_row(batch);
            const int64_t count =
                std::min({piece_rows, source_.batch_rows(batch) - begin, static_cast<int64_t>(step) + 1});
            const std::vector<ColumnView>& views = reader.read(batch, begin, count);
            for (int64_t done = 0; done < count; done += encoder.rows_max()) {
                const int64_t rows = std::min(encoder.rows_max(), count - done);
                add_rows(encoder.encode(views, done, rows, 0), rows, i);
            }
        }
    }

    void exact_range(int workers) {
        range_ = Range();
        MorselQueue queue(source_, kMorselRows);
        std::mutex mutex;
        // Not the job's own flag: statistics of other sources are asked for at the same time.
        std::atomic<bool> failed{false};
        parallel_run(
            workers_for(workers, source_, kMorselRows),
            [&](int) {
                Range local;
                MorselReader reader(source_, columns_, queue, budget_, control_);
                RowEncoder encoder(layout_, columns_, budget_);
                while (!failed.load(std::memory_order_relaxed) && reader.next()) {
                    for (int64_t begin = 0; begin < reader.rows(); begin += encoder.rows_max()) {
                        const int64_t count = std::min(encoder.rows_max(), reader.rows() - begin);
                        add(encoder.encode(reader.views(), begin, count, 0), count, local);
                    }
                }
                std::lock_guard<std::mutex> lock(mutex);
                range_.merge(local);
            },
            [&] { failed.store(true, std::memory_order_relaxed); });
    }

    void report(KeyStatistics& out) const {
        out.rows = static_cast<uint64_t>(source_.rows());
        out.nulls = range_.nulls;
        out.has_range = ranged_ && range_.any;
        if (!out.has_range) return;
        out.min = static_cast<int64_t>(static_cast<uint64_t>(range_.min) ^ flip_);
        out.max = static_cast<int64_t>(static_cast<uint64_t>(range_.max) ^ flip_);
    }

  private:
    void add(const EncodedRows& encoded, int64_t rows, Range& range) const {
        range.nulls += static_cast<uint64_t>(rows - encoded.rows);
        if (!ranged_) return;
        for (int64_t r = 0; r < encoded.rows; ++r) range.add(unmix64(encoded.hash(r)), shift_, flip_);
    }

    Source& source_;
    MemoryBudget& budget_;
    JobControl& control_;
    PartitionSpec spec_;
    std::vector<int32_t> columns_;
    RowLayout layout_;
    bool ranged_ = false;
    uint64_t flip_ = 0;
    uint32_t shift_ = 0;
    Range range_;
};

}  // namespace

KeyStatistics key_statistics(Source& source, const std::vector<KeySpec>& keys, int64_t sample_rows, bool exact_range,
                             int workers, MemoryBudget& budget, JobControl& control) {
    KeyStatistics out;
    StatisticsReader reader(source, keys, budget, control);
    if (source.rows() > 0) {
        reader.sample(std::min(sample_rows, source.rows()), out);
        if (exact_range) reader.exact_range(workers);
    }
    reader.report(out);
    return out;
}

SampledPairs sampled_pairs(Source& left, const std::vector<KeySpec>& left_keys, Source& right,
                           const std::vector<KeySpec>& right_keys, int64_t sample_rows, MemoryBudget& budget,
                           JobControl& control) {
    SampledPairs out;
    if (left.rows() == 0 || right.rows() == 0) return out;
    const int64_t wanted[] = {std::min(sample_rows, left.rows()), std::min(sample_rows, right.rows())};
    // Sides that are sorted alike would have the same keys at the same places: each has places of its own, unless it is
    // read as a whole.
    const auto place = [](uint64_t seed, bool whole) {
        return [seed, whole](int64_t piece) {
            return whole ? 0.0 : static_cast<double>(mix64(seed + static_cast<uint64_t>(piece)) >> 11U) * 0x1p-53;
        };
    };
    WordCounts counts(wanted[0] + kPieceRows);
    WordCounts pieces(wanted[1] + kPieceRows);
    uint64_t rows[] = {0, 0};
    StatisticsReader(left, left_keys, budget, control)
        .read_pieces(wanted[0], kPairPieceRows, place(1, wanted[0] == left.rows()),
                     [&](const EncodedRows& encoded, int64_t count, int64_t piece) {
                         for (int64_t r = 0; r < encoded.rows; ++r) counts.add(encoded.hash(r), piece);
                         rows[0] += static_cast<uint64_t>(count);
                     });
    double pairs = 0;
    StatisticsReader(right, right_keys, budget, control)
        .read_pieces(wanted[1], kPairPieceRows, place(1ULL << 32U, wanted[1] == right.rows()),
                     [&](const EncodedRows& encoded, int64_t count, int64_t piece) {
                         for (int64_t r = 0; r < encoded.rows; ++r) {
                             const auto& [word, found, other] = counts.find(encoded.hash(r));
                             if (found == 0) continue;
                             pairs += static_cast<double>(found);
                             pieces.add(mix64((static_cast<uint64_t>(other) << 32U) | static_cast<uint64_t>(piece)));
                         }
                         rows[1] += static_cast<uint64_t>(count);
                     });
    if (rows[0] == 0 || rows[1] == 0) return out;
    const double left_share = static_cast<double>(rows[0]) / static_cast<double>(left.rows());
    const double right_share = static_cast<double>(rows[1]) / static_cast<double>(right.rows());
    out.pairs = pairs / (left_share * right_share);
    out.pieces = pieces.distinct();
    return out;
}

}  // namespace spillway
