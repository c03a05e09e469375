// SPDX-License-Identifier: Apache-2.0
// The command that compiles the engine, with a made-up child in place of the compilation.
import { EventEmitter } from "node:events";
import { expect, test, vi } from "vitest";
import { buildCommand } from "../../../src/cli/commands/build.js";
import type { CommandContext } from "../../../src/cli/command.js";
import { Interruption } from "../../../src/cli/interruption.js";

const child = Object.assign(new EventEmitter(), { kill: vi.fn() });
vi.mock("node:child_process", () => ({ spawn: () => child }));

const cannotStop = new Error("kill EPERM");

function run(signal: AbortSignal): Promise<void> {
    return buildCommand.run!({ cuda: "off" }, { signal } as CommandContext);
}

test.each([
    ["cannot be stopped", () => child.emit("error", cannotStop)],
    ["fails", () => child.emit("close", 1)],
    ["succeeds nevertheless", () => child.emit("close", 0)]
])("a run that is interrupted ends with that, also where the build %s", async (_, end) => {
    const controller = new AbortController();
    const ended = run(controller.signal);
    child.kill.mockImplementationOnce(end);
    const interruption = new Interruption("Interrupted", 130);
    controller.abort(interruption);
    await expect(ended).rejects.toBe(interruption);
    expect(child.kill).toHaveBeenLastCalledWith("SIGTERM");
});

test("a build that nobody interrupts fails with its own error", async () => {
    const broken = run(new AbortController().signal);
    child.emit("error", cannotStop);
    await expect(broken).rejects.toBe(cannotStop);
    const failed = run(new AbortController().signal);
    child.emit("close", 3);
    await expect(failed).rejects.toMatchObject({ code: "NATIVE_MISSING", details: { exitCode: 3 } });
});
