package scale

import (
	_ "embed" // of the introduction
	"fmt"
	"io"
	"strings"

	"nstance.dev/e2e/perf/bench"
)

// introduction says what was measured, and how to do that again.
//
//go:embed introduction.md
var introduction string

// WritePage writes rows as a Markdown page, with the circumstances under which they were
// measured.
func WritePage(w io.Writer, size Size, setting bench.Setting, rows []bench.Row) error {
	var b strings.Builder
	b.WriteString(introduction)
	fmt.Fprintf(&b, "- cluster: %d pools on %d shards, %d Nodes with %d Pods each\n", size.Pools, len(shards), size.Nodes, size.PodsPerNode)
	if err := bench.WriteSetting(&b, setting); err != nil {
		return err
	}
	b.WriteString("- API server, its storage, Cluster API, shards and operator share the machine\n\n")
	if err := bench.WriteRows(&b, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
