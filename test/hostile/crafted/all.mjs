// SPDX-License-Identifier: Apache-2.0
import { dictionaries } from "./dictionaries.mjs";
import { footers } from "./footers.mjs";
import { nested } from "./nested.mjs";
import { streams } from "./streams.mjs";
import { views } from "./views.mjs";

/** Files made for one attack each: functions that make their bytes, by family and name. */
export const crafted = { nested, footers, views, dictionaries, streams };
