// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "coherent_join/gathered_parts.hpp"
#include "stream/partition_groups.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

class PartPlan {
  public:
    PartPlan(const CoherentShape& shape, const KindRules& rules, const FarSide& build, const FarSide& probe)
        : shape_(shape), rules_(rules), build_(build), probe_(probe) {}

    // Neighbouring partitions, as many as fit a group.
    std::vector<GatheredPart> make() {
        PartitionGroups groups({shape_.group_pages, UINT64_MAX, UINT64_MAX});
        for (uint64_t p = 0; p < shape_.partitions; ++p) {
            if (!gives_rows(p)) continue;
            const uint64_t pages = (build_.rows(p) + shape_.page_rows - 1) / shape_.page_rows;
            pages > shape_.group_pages ? groups.add_alone(p, {pages}) : groups.add(p, {pages});
        }
        for (PartitionGroup& group : groups.finish()) {
            GatheredPart part;
            part.partitions = std::move(group.partitions);
            if (group.alone) {
                plan_large(part);
                continue;
            }
            part.rule = rules_.probe;
            part.build_marks = rules_.build_marks;
            parts_.push_back(std::move(part));
        }
        return std::move(parts_);
    }

  private:
    // Where one side has no rows, those of the other are in the result for having no partner, or not at all.
    bool gives_rows(uint64_t partition) const {
        const bool has_build = build_.rows(partition) > 0;
        const bool has_probe = probe_.rows(partition) > 0;
        const bool keeps_build = rules_.build_marks && !rules_.build_marked;
        const bool keeps_probe = rules_.probe.keep_unmatched || (rules_.probe.once && rules_.probe.anti);
        return (has_build && (has_probe || keeps_build)) || (has_probe && keeps_probe);
    }

    // Every part of the build rows meets all probe rows of the partition. One key may have all of them, so that no
    // further radix pass would help for certain. Where probe rows are marked, as many at a time as there is memory for
    // marks of. Full joins want to know of build rows, too, whether any probe row has met them: if not all probe rows
    // can be marked at once, all of them are looked up once more for that.
    void plan_large(const GatheredPart& large) {
        GatheredPart part = large;
        part.rule = rules_.part_rule();
        part.build_marks = rules_.build_marks;
        part.probe_marks = rules_.probe_marks();
        first_part_ = parts_.size();
        if (!part.probe_marks) return plan_slice(part);
        const uint64_t probe_rows = probe_.rows(large.partitions.front());
        part.build_marks = rules_.build_marks && probe_rows <= shape_.marked_rows;
        for (uint64_t first = 0; first == 0 || first < probe_rows; first += shape_.marked_rows) {
            part.probe = {first, shape_.marked_rows};
            plan_slice(part);
        }
        if (part.build_marks == rules_.build_marks) return;
        part = large;
        part.rule = {false, false, false, false};
        part.build_marks = true;
        plan_slice(part);
    }

    void plan_slice(GatheredPart part) {
        const uint64_t build_rows = build_.rows(part.partitions.front());
        part.clears = part.probe_marks;
        for (uint64_t first = 0; first < build_rows; first += shape_.group_rows()) {
            part.build = {first, shape_.group_rows()};
            part.waits = parts_.size() > first_part_;
            parts_.push_back(part);
            part.clears = false;
        }
        if (!part.probe_marks) return;
        part.lone = true;
        parts_.push_back(std::move(part));
    }

    const CoherentShape& shape_;
    const KindRules& rules_;
    const FarSide& build_;
    const FarSide& probe_;
    std::vector<GatheredPart> parts_;
    size_t first_part_ = 0;  // of the large partition
};

}  // namespace

std::vector<GatheredPart> plan_gathered_parts(const CoherentShape& shape, const KindRules& rules, const FarSide& build,
                                              const FarSide& probe) {
    return PartPlan(shape, rules, build, probe).make();
}

}}  // namespace spillway::cuda::coherent_join
