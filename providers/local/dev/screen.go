package dev

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"nstance.dev/server/serve"
)

// screen shows the cluster: as a table that is drawn over and over, or as one
// line for each change.
type screen struct {
	out io.Writer
	dir string // as the user named it
	// scaling is the line that changes the size of the group; empty: it has none.
	scaling string
	live    bool // a terminal: draw the table

	now  func() time.Time
	size func() (columns, rows int) // of the terminal

	mu    sync.Mutex
	drawn int // lines of the table that stands on the terminal
}

// run shows the machines until ctx ends.
func (s *screen) run(ctx context.Context, serving *serve.Serving, contextPath string) {
	s.hello(serving, contextPath)
	var before []serve.Machine
	serving.Changes(ctx, func() {
		now := serving.Machines()
		if s.live {
			s.draw(now)
			return
		}
		for _, line := range changes(before, now) {
			s.note(line)
		}
		before = now
	})
}

// hello says what is there and what can be done with it.
func (s *screen) hello(serving *serve.Serving, contextPath string) {
	fmt.Fprintf(s.out, `nstance dev: shard %s of cluster %s is served (term %d)
  operators %s   agents %s   registration %s
  health    http://%s/health   metrics http://%s/metrics
  log       %s/server.log

Try in another terminal:
  export NSTANCE_ADMIN_CONTEXT=%s
  bin/nstance-admin group list
  bin/nstance-admin instance list --watch
%s
`, Shard, Cluster, serving.Term, serving.Addrs.Operator, serving.Addrs.Agent, serving.Addrs.Registration,
		serving.Addrs.Health, serving.Addrs.Health, s.dir, contextPath, s.scaling)
}

// alarm prints a line that stays, above the table if there is one.
func (s *screen) alarm(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	fmt.Fprintln(s.out, "error:", text)
}

// note prints a line that stays, above the table if there is one.
func (s *screen) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	fmt.Fprintln(s.out, text)
}

// wipe takes the table off the terminal; the next draw puts it back.
func (s *screen) wipe() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn) // up to its first line, and clear from there
		s.drawn = 0
	}
}

// bye says what is left.
func (s *screen) bye(kept bool) error {
	state := "stopped"
	if kept {
		state = "left running"
	}
	_, err := fmt.Fprintf(s.out, "nstance dev: server stopped, machines %s; the same command with --dir %s goes on from here\n", state, s.dir)
	return err
}

// draw writes the table over the one that stands there.
func (s *screen) draw(machines []serve.Machine) {
	columns, rows := s.size()
	text := fit(table(machines, s.now(), rows-frame), columns)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	fmt.Fprint(s.out, text)
	s.drawn = strings.Count(text, "\n")
}

// frame is how many lines of a full table are not machines: its head, the line
// that says how many more there are, the sum, and the one of the cursor.
const frame = 4

// table is the machines as text, at a moment, with at most so many of them: a
// table that scrolls away could not be drawn over.
func table(machines []serve.Machine, now time.Time, most int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "INSTANCE\tGROUP\tSTATUS\tAGE\tLAST REPORT\tNOTE")
	most = max(most, 1)
	for _, m := range machines[:min(len(machines), most)] {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.Group, m.Status, age(now, m.Created), reported(now, m.LastSeen), m.Reason)
	}
	_ = w.Flush() // a strings.Builder takes everything
	if more := len(machines) - most; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	b.WriteString(summary(machines) + "\n")
	return b.String()
}

// fit cuts every line of a text to the columns, lest one takes two lines of the
// terminal.
func fit(text string, columns int) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if len(line) > columns+1 {
			lines[i] = line[:columns] + "\n"
		}
	}
	return strings.Join(lines, "")
}

func age(now, since time.Time) string { return now.Sub(since).Truncate(time.Second).String() }

func reported(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return age(now, at) + " ago"
}

// summary counts the machines by status, in the order in which these come up.
func summary(machines []serve.Machine) string {
	var order []string
	counts := map[string]int{}
	for _, m := range machines {
		if counts[m.Status] == 0 {
			order = append(order, m.Status)
		}
		counts[m.Status]++
	}
	if len(order) == 0 {
		return "no machines"
	}
	parts := make([]string, len(order))
	for i, status := range order {
		parts[i] = fmt.Sprintf("%d %s", counts[status], status)
	}
	return strings.Join(parts, ", ")
}

// changes are the lines that say what happened between two looks.
func changes(before, now []serve.Machine) []string {
	old := make(map[string]serve.Machine, len(before))
	for _, m := range before {
		old[m.ID] = m
	}
	var lines []string
	for _, m := range now {
		was, known := old[m.ID]
		delete(old, m.ID)
		switch {
		case !known:
			lines = append(lines, fmt.Sprintf("%s %s %s", m.ID, m.Group, m.Status))
		case was.Status != m.Status:
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s -> %s %s", m.ID, m.Group, was.Status, m.Status, m.Reason), " "))
		}
	}
	for _, m := range before {
		if _, gone := old[m.ID]; gone {
			lines = append(lines, fmt.Sprintf("%s %s gone", m.ID, m.Group))
		}
	}
	return lines
}
