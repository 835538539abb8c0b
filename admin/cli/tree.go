package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// tree prints indented lines, until one fails.
type tree struct {
	w   io.Writer
	now time.Time
	err error
}

func newTree(w io.Writer, now time.Time) *tree { return &tree{w: w, now: now} }

// line prints one line below others. Text of a server cannot break it.
func (t *tree) line(depth int, format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, "%s%s\n", strings.Repeat("  ", depth), output.Cell(fmt.Sprintf(format, args...)))
	}
}

// conditions prints what is the case.
func (t *tree) conditions(depth int, all []*nstancev1.Condition) {
	t.line(depth, "conditions:")
	for _, c := range all {
		subject := ""
		if c.GetInstanceId() != "" {
			subject = " " + c.GetInstanceId()
		}
		t.line(depth+1, "%s%s: %s%s%s", c.GetType(), subject, c.GetMessage(), t.since(c.GetSince()), t.until("until", c.GetUntil()))
	}
	if len(all) == 0 {
		t.line(depth+1, "none")
	}
}

// next prints what the server would do now.
func (t *tree) next(depth int, all []*nstancev1.Decision) {
	t.line(depth, "next:")
	for _, d := range all {
		t.line(depth+1, "%s", decided(d))
		if d.GetHeldBy() != "" {
			t.line(depth+2, "blocked by %s%s", d.GetHeldBy(), t.until("until", d.GetNotBefore()))
		}
	}
	if len(all) == 0 {
		t.line(depth+1, "nothing; the server waits for something to happen")
	}
}

// decisions prints the newest ones.
func (t *tree) decisions(depth int, all []*nstancev1.Decision, most int) {
	t.line(depth, "decisions:")
	for _, d := range all[:min(len(all), most)] {
		held := ""
		if d.GetHeldBy() != "" {
			held = "; blocked by " + d.GetHeldBy()
		}
		t.line(depth+1, "%s ago  %s%s", age(d.GetTime(), t.now), decided(d), held)
	}
	if len(all) == 0 {
		t.line(depth+1, "none that is remembered")
	}
}

// decided is a decision without its moment. A create that names an instance makes
// another one in its place.
func decided(d *nstancev1.Decision) string {
	text := d.GetAction()
	if d.GetInstanceId() != "" {
		if text == "create" {
			text += " in place of"
		}
		text += " " + d.GetInstanceId()
	}
	if d.GetReason() != "" {
		text += ": " + d.GetReason()
	}
	return text
}

func (t *tree) since(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return fmt.Sprintf(" (for %s)", age(at, t.now))
}

func (t *tree) until(word string, at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return fmt.Sprintf(", %s %s", word, clock(at))
}
