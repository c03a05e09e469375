// SPDX-License-Identifier: Apache-2.0
// What records of benchmarks from Node take from the report of a query.

/** The bytes that crossed the link; nothing where no stage of the GPU told of it. */
export function linkOf(report) {
    const told = report.stages.flatMap(({ device }) => {
        const { outOfCore, outOfCoreGroupBy, outOfCoreTree } = device ?? {};
        return [outOfCore, outOfCoreGroupBy, ...(outOfCoreTree?.operators ?? [])].filter((of) => of !== undefined);
    });
    const sum = (name) => told.reduce((bytes, of) => bytes + (of[name] ?? 0), 0);
    return told.length === 0 ? {} : { link_bytes: { h2d: sum("h2dBytes"), d2h: sum("d2hBytes") } };
}
