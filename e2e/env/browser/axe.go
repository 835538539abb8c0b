package browser

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// axe is the accessibility checker of Deque, version 4.14.1, under the Mozilla Public License 2.0,
// whose text stands beside it. It is injected into pages and changes nothing in them.
//
//go:embed axe/axe.min.js
var axe string

// Violation is a rule of accessibility that a page breaks.
type Violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"` // minor, moderate, serious or critical
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string   `json:"html"`
		Target  []string `json:"target"`
		Summary string   `json:"failureSummary"`
	} `json:"nodes"`
}

// String says what is wrong and where.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", v.ID, v.Impact, v.Help)
	for _, n := range v.Nodes {
		fmt.Fprintf(&b, "\n  %s\n    %s", n.HTML, strings.ReplaceAll(n.Summary, "\n", "\n    "))
	}
	return b.String()
}

// Serious returns the violations of the page that are serious or critical.
func (t *Tab) Serious() ([]Violation, error) {
	var known bool
	if err := t.Eval(`typeof axe === "object"`, &known); err != nil {
		return nil, err
	}
	if !known {
		if err := t.Eval(axe+"\n;0", nil); err != nil {
			return nil, fmt.Errorf("inject axe: %w", err)
		}
	}
	var all []Violation
	if err := t.Eval(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations)`, &all); err != nil {
		return nil, fmt.Errorf("run axe: %w", err)
	}
	return slices.DeleteFunc(all, func(v Violation) bool { return v.Impact != "serious" && v.Impact != "critical" }), nil
}
