package metadata

import (
	"bufio"
	"strings"
	"time"

	"nstance.dev/server/driver"
)

// The lines around what a machine's notes say of it. The text before and behind
// them belongs to people.
const (
	notesBegin = "# >>> nstance metadata (generated, overwritten) >>>"
	notesEnd   = "# <<< nstance metadata <<<"
)

// Notes are what is written into the description of a machine. Owner and kind of
// the text are there for a machine whose maker died before it could set tags; the
// rest is for people.
type Notes struct {
	Owner    driver.Owner
	Tenant   string
	Group    string
	Template string
	Kind     string
	Type     string
	Created  time.Time // zero: not said
}

// NotesOf are the notes of the machine that a request is for.
func NotesOf(req driver.CreateRequest) Notes {
	return Notes{
		Owner: req.Owner, Tenant: req.Tenant, Group: req.Group, Template: req.Template, Kind: req.Kind,
		Type: req.InstanceType, Created: req.CreatedAt.UTC().Truncate(time.Second),
	}
}

// fields are the lines, in order.
func (n *Notes) fields() []struct {
	name  string
	value *string
} {
	return []struct {
		name  string
		value *string
	}{
		{"tenant", &n.Tenant},
		{"group", &n.Group},
		{"template", &n.Template},
		{"kind", &n.Kind},
		{"type", &n.Type},
		{"cluster", &n.Owner.Cluster},
		{"shard", &n.Owner.Shard},
	}
}

// block is the text between the lines, those included.
func (n Notes) block() string {
	var b strings.Builder
	b.WriteString(notesBegin + "\n")
	for _, f := range n.fields() {
		if *f.value != "" {
			b.WriteString(f.name + ": " + oneLine(*f.value) + "\n")
		}
	}
	if !n.Created.IsZero() {
		b.WriteString("created: " + n.Created.Format(time.RFC3339) + "\n")
	}
	b.WriteString(notesEnd)
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Within returns description with the notes in it: in place of older ones, or at
// its end. Everything else in it stays.
func (n Notes) Within(description string) string {
	before, _, after, found := cutNotes(description)
	if !found {
		before = strings.TrimRight(description, "\n")
		if before != "" {
			before += "\n\n"
		}
		return before + n.block() + "\n"
	}
	return before + n.block() + after
}

// ParseNotes reads the notes of a description.
func ParseNotes(description string) (n Notes, found bool) {
	_, block, _, found := cutNotes(description)
	if !found {
		return Notes{}, false
	}
	lines := bufio.NewScanner(strings.NewReader(block))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		for _, f := range n.fields() {
			if f.name == name {
				*f.value = value
			}
		}
		if name == "created" {
			n.Created, _ = time.Parse(time.RFC3339, value)
		}
	}
	return n, true
}

// cutNotes slices a description around the notes in it.
func cutNotes(description string) (before, block, after string, found bool) {
	before, rest, begun := strings.Cut(description, notesBegin)
	block, after, ended := strings.Cut(rest, notesEnd)
	if !begun || !ended {
		return description, "", "", false
	}
	return before, block, after, true
}
