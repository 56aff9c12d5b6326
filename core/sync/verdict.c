/* The resume verdict; see verdict.h. */
#include "verdict.h"

/* Index of the last epoch that both lineages went through (same epoch, same first lsn, in common order), or -1. */
static int last_common(const struct ms_lineage *a, const struct ms_lineage *b)
{
    int common = -1;
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        const struct ms_lineage_entry *x = &a->entries[i], *y = &b->entries[i];
        if (ms_epoch_compare(x->epoch, y->epoch) != 0 || x->first != y->first) break;
        common = (int)i;
    }
    return common;
}

/* The last lsn that a history has within epoch i of its lineage. */
static uint64_t end_of(const struct ms_history *history, uint32_t i)
{
    const struct ms_lineage *lineage = history->lineage;
    return i + 1 < lineage->count ? lineage->entries[i + 1].first - 1 : history->position;
}

struct ms_verdict ms_verdict(struct ms_history leader, struct ms_history follower)
{
    struct ms_epoch theirs = ms_lineage_last(leader.lineage), mine = ms_lineage_last(follower.lineage);
    /* 1. No history: from the beginning of the log, if it is there. */
    if (follower.lineage->count == 0) {
        if (leader.first <= 1) return (struct ms_verdict){.kind = MS_VERDICT_CONTINUE, .allowed = true};
        return (struct ms_verdict){.kind = MS_VERDICT_EMPTY, .snapshot = true, .allowed = true};
    }
    /* 2. No epoch in common. */
    int common = last_common(leader.lineage, follower.lineage);
    if (common < 0) return (struct ms_verdict){.kind = MS_VERDICT_OTHER, .extra = follower.position, .snapshot = true};
    /* 3. Where the two part. */
    uint64_t leader_end = end_of(&leader, (uint32_t)common), follower_end = end_of(&follower, (uint32_t)common);
    uint64_t parting = leader_end < follower_end ? leader_end : follower_end;
    struct ms_verdict verdict = {.common = parting, .extra = follower.position - parting};
    bool higher = ms_epoch_compare(theirs, mine) > 0;
    if (verdict.extra > 0) {
        bool same_epoch = (uint32_t)common + 1 == leader.lineage->count && (uint32_t)common + 1 == follower.lineage->count;
        verdict.kind = same_epoch ? MS_VERDICT_AHEAD : MS_VERDICT_DIVERGED;
        verdict.snapshot = true;
        verdict.allowed = higher;
        return verdict;
    }
    /* 4. The follower is at a position that the leader went through. */
    verdict.kind = follower.position + 1 >= leader.first ? MS_VERDICT_CONTINUE : MS_VERDICT_TRIMMED;
    verdict.snapshot = verdict.kind == MS_VERDICT_TRIMMED;
    verdict.allowed = higher || ms_epoch_compare(theirs, mine) == 0;
    return verdict;
}

const char *ms_verdict_name(int kind)
{
    static const char *const names[] = {"none", "continue", "empty", "trimmed", "ahead", "diverged", "other_history"};
    return kind >= 0 && (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}
