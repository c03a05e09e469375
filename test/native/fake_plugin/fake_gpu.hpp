// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/api/plugin.h"

// A GPU whose memory is host memory. One lock for all of it, as the real one's calls run one after the other.
struct spillway_cuda_gpu {
    uint64_t limit_bytes;
    uint64_t used_bytes;
    uint64_t peak_bytes;
    int children;
    std::atomic<bool> cancelled;
    uint64_t pinned_used_bytes = 0;
    uint64_t pinned_reserved_bytes = 0;  // with what is cached until trim()
    bool lost = false;                   // and stays so
    uint64_t claimed_bytes = 0;          // by all claims, of what is free
    uint64_t peer_bytes = 0;             // of a peer, at most; 0: nobody has opened one
    uint64_t peer_used_bytes = 0;
};
struct spillway_cuda_transfer {
    spillway_cuda_gpu* gpu;
};
struct spillway_cuda_lane {
    spillway_cuda_gpu* gpu;
};

namespace fake {

using namespace spillway::cuda::api;

std::recursive_mutex& lock();

struct Failure {
    int32_t code;
    std::string text;
    uint64_t wanted_bytes = 0;
    bool limit_reached = true;
    // Then what is free and the limit are those of host memory, and else the GPU's.
    bool host_memory = false;
    uint64_t free_bytes = 0;
    uint64_t limit_bytes = 0;
};

// SPILLWAY_FAKE_GPU names this misbehaviour (fake_plugin.cpp lists them).
bool is_asked_for(const char* what);
void tell(spillway_cuda_status* status, int32_t code, const char* text);
void tell(spillway_cuda_gpu* gpu, spillway_cuda_status* status, const Failure& failure);
// Not lost, not cancelled; else throws.
void check(spillway_cuda_gpu* gpu);
// A kernel fails here, if this misbehaviour is asked for.
void fail_here(const char* asked);
// Where it is to be slow: waits until it is cancelled or need not be slow any more. Without the lock, as if it waited
// for the host.
void be_slow(spillway_cuda_gpu* gpu);
// "lost-result" waits for so many windows of a result: more than there are blocks for them, so that some were read.
constexpr int kWindowsBeforeLoss = 32;

// Memory that stays with one operation, whether it has taken it or not, as the real plugin's PoolClaim.
class Claim {
  public:
    // Throws where the limit, what is in use and other claims leave less.
    Claim(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose);
    ~Claim() { claim(0); }
    Claim(const Claim&) = delete;
    void claim(uint64_t bytes);
    void use(uint64_t bytes);
    void give_back(uint64_t bytes);
    uint64_t unused_bytes() const { return bytes_ > used_bytes_ ? bytes_ - used_bytes_ : 0; }
    void reset_peak() { peak_bytes_ = used_bytes_; }
    void keep_peak();

  private:
    void count(uint64_t bytes, uint64_t used_bytes);
    spillway_cuda_gpu* gpu_;
    uint64_t bytes_ = 0;
    uint64_t used_bytes_ = 0;
    uint64_t peak_bytes_ = 0;
};

// What this thread takes meanwhile is of the claim.
class ClaimUser {
  public:
    explicit ClaimUser(std::shared_ptr<Claim> claim);
    ~ClaimUser();
    ClaimUser(const ClaimUser&) = delete;

  private:
    std::shared_ptr<Claim> before_;
};

// Bytes that this thread may take.
uint64_t free_bytes(const spillway_cuda_gpu* gpu);

// Memory of the fake GPU that is counted against its limit and that nobody looks into.
class Room {
  public:
    Room() = default;
    Room(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose);
    Room(Room&& other) noexcept { *this = std::move(other); }
    Room& operator=(Room&& other) noexcept {
        std::swap(gpu_, other.gpu_);
        std::swap(bytes_, other.bytes_);
        std::swap(claim_, other.claim_);
        return *this;
    }
    ~Room();
    uint64_t bytes() const { return bytes_; }

  private:
    spillway_cuda_gpu* gpu_ = nullptr;
    uint64_t bytes_ = 0;
    std::shared_ptr<Claim> claim_;
};

class Block {
  public:
    Block() = default;
    Block(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose);
    uint8_t* data() { return bytes_.data(); }
    const uint8_t* data() const { return bytes_.data(); }
    uint64_t size() const { return bytes_.size(); }

  private:
    Room room_;
    std::vector<uint8_t> bytes_;
};

struct Column {
    ColumnSpec is{};
    Block values;
    Block offsets;
    Block validity;

    bool is_bytes() const { return is.kind == ColumnKind::kBytes; }
    bool valid(uint64_t row) const { return !is.nullable || (validity.data()[row / 8] >> (row % 8) & 1) != 0; }
    uint64_t offset(uint64_t row) const {
        uint64_t value;
        std::memcpy(&value, offsets.data() + row * 8, 8);
        return value;
    }
    // Bytes of a value.
    std::string at(uint64_t row) const {
        const char* const all = reinterpret_cast<const char*>(values.data());
        if (is_bytes()) return {all + offset(row), all + offset(row + 1)};
        return {all + row * is.width, is.width};
    }
};

struct Table {
    uint64_t rows = 0;
    std::vector<Column> columns;
};

spillway_cuda_table* own(spillway_cuda_gpu* gpu, Table table);
Column make_column(spillway_cuda_gpu* gpu, uint64_t rows, const ColumnSpec& is);

// Values of a new column, one by one.
class ColumnWriter {
  public:
    void add(const std::string& value) { add_value(value, true); }
    void add_null(uint32_t width) { add_value(std::string(width, '\0'), false); }
    Column finish(spillway_cuda_gpu* gpu, ColumnKind kind, uint32_t width);

  private:
    void add_value(const std::string& value, bool valid);
    // End to end: a string for each value takes 32 bytes of the process whose resident memory a test watches.
    std::string values_;
    std::vector<uint64_t> ends_;
    std::vector<bool> valid_;
    bool has_null_ = false;
};

// Runs a body of the C interface under the lock; what it throws becomes the status.
template <class Body>
void guarded(spillway_cuda_gpu* gpu, spillway_cuda_status* status, Body&& body) {
    std::lock_guard<std::recursive_mutex> hold(lock());
    tell(status, SPILLWAY_CUDA_OK, "");
    try {
        check(gpu);
        body();
    } catch (const Failure& failure) {
        tell(gpu, status, failure);
    }
}

Table join(spillway_cuda_gpu* gpu, const Table& build, const Table& probe, const TableJoin& join);
uint64_t count(const Table& build, const Table& probe, const TableJoin& join);

// Build row, probe row; -1: none.
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

class JoinPieces {
  public:
    JoinPieces(const Table& build, const Table& probe, const TableJoin& join);
    JoinPieces(const JoinPieces&) = delete;
    uint64_t rows() const { return pairs_.size(); }
    // False: there are no more.
    bool next(spillway_cuda_gpu* gpu, uint64_t rows_max, Table& table);

  private:
    const Table& build_;
    const Table& probe_;
    const OwnedTableJoin join_;
    const Pairs pairs_;
    uint64_t done_ = 0;
};

Table group(spillway_cuda_gpu* gpu, const Table& table, const TableGroupBy& group);
// The normalized value of a row's key; empty text and false for a row that has no key.
std::pair<bool, std::string> key_of(const Table& table, const ListView<KeyPart>& parts, uint64_t row, bool nulls_equal);

spillway_cuda_transfer* copied(spillway_cuda_gpu* gpu, void* to, const void* from, uint64_t bytes);

// These functions fill the table of functions that plugin.h declares.
void create_table(spillway_cuda_gpu* gpu, uint64_t rows, const ColumnSpec* columns, uint64_t column_count,
                  spillway_cuda_table** table, spillway_cuda_status* status);
void free_table(spillway_cuda_table* table);
void table_size(const spillway_cuda_table* table, uint64_t* rows, uint64_t* column_count);
void table_column(const spillway_cuda_table* table, uint64_t column, ColumnSpec* told);
void open_lane(spillway_cuda_gpu* gpu, spillway_cuda_lane** lane, spillway_cuda_status* status);
void send_rows(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_table* to, const TableCopy* copies,
               uint64_t copy_count, spillway_cuda_status* status);
void fetch_rows(spillway_cuda_lane* lane, uint32_t slot, const spillway_cuda_table* from, const TableCopy* copies,
                uint64_t copy_count, spillway_cuda_status* status);
void wait_lane(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_status* status);
void close_lane(spillway_cuda_lane* lane);
void join_tables(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                 const TableJoin* join, spillway_cuda_table** result, TableReport* report,
                 spillway_cuda_status* status);
void count_join(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                const TableJoin* join, uint64_t* rows, TableReport* report, spillway_cuda_status* status);
void group_table(spillway_cuda_gpu* gpu, const spillway_cuda_table* table, const TableGroupBy* group,
                 spillway_cuda_table** result, TableReport* report, spillway_cuda_status* status);
void begin_join(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                const TableJoin* join, spillway_cuda_pieces** pieces, uint64_t* total_rows, TableReport* report,
                spillway_cuda_status* status);
void next_piece(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table, TableReport* report,
                spillway_cuda_status* status);
void free_pieces(spillway_cuda_pieces* pieces);

}  // namespace fake

struct spillway_cuda_pieces {
    spillway_cuda_pieces(spillway_cuda_gpu* of, const fake::Table& build, const fake::Table& probe,
                         const fake::TableJoin& join)
        : gpu(of), claim(std::make_shared<fake::Claim>(of, 0, "a result in pieces")), pieces(build, probe, join) {}
    spillway_cuda_gpu* gpu;
    std::shared_ptr<fake::Claim> claim;
    fake::JoinPieces pieces;
};

struct spillway_cuda_table {
    spillway_cuda_gpu* gpu;
    fake::Table table;
};
