// SPDX-License-Identifier: Apache-2.0
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "./source-tree.js";

// SMALL_SECONDS: how long its compilation takes at least.
const recipe = `cmake_minimum_required(VERSION 3.24)
project(small LANGUAGES CXX)
add_custom_command(OUTPUT slept COMMAND sleep $ENV{SMALL_SECONDS})
add_custom_target(slow DEPENDS slept)
add_library(spillway SHARED native/addon.cpp)
add_dependencies(spillway slow)
set_target_properties(spillway PROPERTIES PREFIX "" SUFFIX ".node")
set(SPILLWAY_CUDA_FOUND OFF CACHE INTERNAL "")
if(SPILLWAY_CUDA STREQUAL "ON")
    set(SPILLWAY_CUDA_FOUND ON CACHE INTERNAL "")
    add_library(spillway_cuda SHARED native/addon.cpp)
endif()
`;

/**
 * A package with the scripts of this one and an engine of one line, so that building it takes seconds. A real compiler
 * builds it, as it does the real engine.
 */
export function writeSmallPackage(folder: string): void {
    cpSync(join(repositoryRoot, "scripts"), join(folder, "scripts"), { recursive: true });
    symlinkSync(join(repositoryRoot, "node_modules"), join(folder, "node_modules"));
    for (const name of ["native", "dist/native"]) mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, "native/addon.cpp"), "int answer() { return 42; }\n");
    writeFileSync(join(folder, "CMakeLists.txt"), recipe);
    const facts = { name: "small", type: "module", binary: { napi_versions: [9] } };
    writeFileSync(join(folder, "package.json"), JSON.stringify(facts));
    const loader = "dist/native/engine-folder.js";
    cpSync(join(repositoryRoot, loader), join(folder, loader));
    writeFileSync(join(folder, "dist/native/engine.json"), '{ "version": "1.2.3", "sources": "abc" }');
}
