// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { root } from "./step.mjs";

function filesBelow(name) {
    const path = join(root, name);
    const status = statSync(path, { throwIfNoEntry: false });
    if (status === undefined) return [];
    if (!status.isDirectory()) return [name];
    const names = readdirSync(path, { recursive: true, withFileTypes: true });
    return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

/** Hash of names and contents: unlike times of change it survives a checkout, a copy and a container layer. */
export function hashOf(names) {
    const hash = createHash("sha256");
    for (const name of names.flatMap(filesBelow).sort()) {
        const path = name.startsWith(root) ? name : join(root, name);
        hash.update(path.slice(root.length)).update("\0").update(readFileSync(path)).update("\0");
    }
    return hash.digest("hex");
}
