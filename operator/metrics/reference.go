package metrics

import (
	"fmt"
	"strings"
)

// Reference returns the table of metrics for the documentation, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("| Metric | Kind | Meaning |\n|---|---|---|\n")
	for _, m := range All() {
		name := m.FullName()
		if len(m.Labels) > 0 {
			name += "{" + strings.Join(m.labels(), ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, m.Kind, m.Help+values(m.Labels))
	}
	return b.String()
}

// values lists what labels can be that have few values.
func values(labels []Label) string {
	var b strings.Builder
	for _, l := range labels {
		if l.Values != nil {
			fmt.Fprintf(&b, " `%s`: `%s`.", l.Name, strings.Join(l.Values, "`, `"))
		}
	}
	return b.String()
}
