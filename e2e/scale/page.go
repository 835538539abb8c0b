package scale

import (
	"fmt"
	"io"
	"strings"

	"nstance.dev/e2e/bench"
)

// WritePage writes rows as a Markdown page, with the circumstances under which they were
// measured.
func WritePage(w io.Writer, size Size, setting bench.Setting, rows []bench.Row) error {
	var b strings.Builder
	b.WriteString("# The operator at scale\n\n")
	b.WriteString("Written by `make e2e-scale`. A real API server with Cluster API, the operator's own binary with the chart's flags and rights, and\n")
	b.WriteString("three shards in the measuring process. What exactly is measured stands in the package `e2e/scale`.\n\n")
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
