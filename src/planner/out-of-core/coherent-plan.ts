// SPDX-License-Identifier: Apache-2.0
import type { OutOfCoreFilter } from "../../plan/out-of-core-stage.js";
import { predictCoherent } from "./coherent-predict.js";
import { chooseCoherentSizes } from "./coherent-sizes.js";
import { loadOf, sizeRequestOf, type JoinDraft } from "./join-draft.js";
import { coherentLayoutOf, type JoinFacts } from "./join-layout.js";

function noFilter(asked: boolean | undefined): OutOfCoreFilter {
    const why = "kernels that partition host memory have none";
    return { bytes: 0, droppedShare: 0, reason: asked === true ? `asked for, but ${why}` : why };
}

/** The join by kernels alone. Throws NotOnDevice with why they cannot make it. */
export function coherentDraft(facts: JoinFacts): JoinDraft {
    const costed = coherentLayoutOf(facts);
    const load = loadOf(facts, costed);
    const { nearShare, ...chosen } = chooseCoherentSizes(sizeRequestOf(facts, load));
    return {
        ...chosen,
        layout: costed.layout,
        predicted: predictCoherent(load, nearShare),
        filter: noFilter(facts.query.debug.filter),
        heldBytes: load.heldBytes,
        way: "partitioned by kernels in GPU and host memory"
    };
}
