"""The style sheet of the inspector, and the colours that mean something.

The colours of kinds and stages are those of Okabe and Ito (2008), which people with any form of
colour blindness can tell apart. Each is also named in words wherever it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

COLOURS: Final[Mapping[str, str]] = {
    "episodic": "#0072B2",
    "semantic": "#009E73",
    "summary": "#E69F00",
    "reflection": "#CC79A7",
    "item": "#56B4E9",
}
"""Colour of each kind of memory."""
SERIES: Final[Sequence[str]] = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999",
)  # fmt: skip
"""Colours of the series of a chart, in this order."""

STYLE: Final = """
:root { --quiet: #5a6270; --line: #d7dbe2; --accent: #0b5cad; --paper: #ffffff; }
.body--dark { --quiet: #a9b2c0; --line: #3a4150; --accent: #8ec5ff; --paper: #1b1f27; }
body { font-family: system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif; }
.nicegui-content { padding: 0; }
.q-header.bar { background: var(--paper); color: inherit; padding: .25rem .75rem; gap: .5rem; }
.body--light .q-header.bar { color: #1b1f27; }
.body--dark .q-header.bar { color: #eef1f6; }
.brand { align-self: center; font-weight: 700; text-decoration: none; color: inherit; }
.nav { background: var(--paper); padding: .5rem; }
.page-link { display: flex; gap: .6rem; align-items: center; padding: .45rem .6rem;
  border-radius: .4rem; color: inherit; text-decoration: none; }
.page-link.here { background: color-mix(in srgb, var(--accent) 16%, transparent);
  font-weight: 600; }
.page-link:hover { background: color-mix(in srgb, var(--accent) 8%, transparent); }
.version { padding: .75rem .6rem; }
.content { padding: 1rem clamp(.75rem, 3vw, 2rem); width: 100%; max-width: 1200px;
  display: flex; flex-direction: column; gap: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0; font-weight: 650; }
h2, .heading { font-size: 1.1rem; font-weight: 600; margin: 0; line-height: 1.4; }
a, .nicegui-link { color: var(--accent); }
.inline { display: inline; }
.quiet { color: var(--quiet); font-size: .875rem; }
.full { width: 100%; }
.close { gap: .25rem; }
.wide { width: min(40rem, 94vw); max-width: none; }
.panel { border: 1px solid var(--line); border-radius: .6rem; padding: .9rem; width: 100%;
  display: flex; flex-direction: column; gap: .5rem; background: var(--paper); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .75rem;
  width: 100%; }
.tile .number { font-size: 1.5rem; font-weight: 650; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.row-line { display: flex; gap: .5rem; flex-wrap: wrap; align-items: center; width: 100%; }
.kind { border-radius: 1rem; padding: 0 .6rem; font-size: .8rem; border: 2px solid; }
.ended { text-decoration: line-through; opacity: .75; }
.failure { border-left: 4px solid #D55E00; }
.chart { width: 100%; height: 260px; }
.bar-stack { display: flex; height: .9rem; width: 100%; border-radius: .3rem; overflow: hidden;
  background: var(--line); }
.bar-stack > span { height: 100%; }
.grid-2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr));
  gap: 1rem; width: 100%; }
button.plain { background: none; border: 1px solid var(--line); border-radius: .4rem;
  color: inherit; font: inherit; padding: .2rem .6rem; cursor: pointer; }
.q-btn--outline.q-btn--dense { padding: .2rem .6rem; }
body.body--dark { --q-negative: #ff9a8d !important; }
.bg-negative { --q-negative: #c10015 !important; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
body { --q-primary: #0b5cad !important; }
body.body--dark { --q-primary: #8ec5ff !important; }
.bg-primary { --q-primary: #0b5cad !important; }
.q-table td { white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 600px) { .who .q-btn__content > span { max-width: 9rem; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; } }
"""
