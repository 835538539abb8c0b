package metadata

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/server/driver"
)

var testNotes = Notes{
	Owner:  driver.Owner{Cluster: "prod", Shard: "rack-1"},
	Tenant: "default", Group: "batch", Template: "worker", Kind: "wrk", Type: "cpu:2,memory:2048",
	Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
}

const testBlock = `# >>> nstance metadata (generated, overwritten) >>>
tenant: default
group: batch
template: worker
kind: wrk
type: cpu:2,memory:2048
cluster: prod
shard: rack-1
created: 2026-03-04T05:06:07Z
# <<< nstance metadata <<<`

func TestNotesWithin(t *testing.T) {
	for name, c := range map[string]struct{ description, want string }{
		"an empty description":           {"", testBlock + "\n"},
		"people's text":                  {"Ask Ada before you touch this.\n", "Ask Ada before you touch this.\n\n" + testBlock + "\n"},
		"older notes between their text": {"before\n" + notesBegin + "\ngroup: old\n" + notesEnd + "\nafter", "before\n" + testBlock + "\nafter"},
		"notes without an end":           {notesBegin + "\ngroup: old", notesBegin + "\ngroup: old\n\n" + testBlock + "\n"},
		"an end before a beginning":      {notesEnd + "\n" + notesBegin, notesEnd + "\n" + notesBegin + "\n\n" + testBlock + "\n"},
	} {
		if got := testNotes.Within(c.description); got != c.want {
			t.Errorf("%s becomes %q, want %q", name, got, c.want)
		}
	}
}

func TestParseNotes(t *testing.T) {
	if got, found := ParseNotes("text\n" + testBlock + "\n"); !found || got != testNotes {
		t.Errorf("notes %+v, %t; want %+v", got, found, testNotes)
	}
	for _, none := range []string{"", "tenant: default", notesBegin + "\ntenant: default"} {
		if got, found := ParseNotes(none); found {
			t.Errorf("%q has notes: %+v", none, got)
		}
	}
}

// What a person wrote is there after any number of changes, and notes are read as
// they were written.
func TestNotesLeavePeoplesTextAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z#: \n]{0,60}`).Draw(t, "text")
		once := testNotes.Within(text)
		other := testNotes
		other.Group = rapid.StringMatching(`[a-z0-9-]{1,32}`).Draw(t, "group")
		twice := other.Within(once)
		if got, found := ParseNotes(twice); !found || got != other {
			t.Fatalf("read %+v, %t; written %+v", got, found, other)
		}
		if got := testNotes.Within(twice); got != once {
			t.Fatalf("%q became %q", once, got)
		}
		if !strings.HasPrefix(twice, strings.TrimRight(text, "\n")) {
			t.Fatalf("%q became %q", text, twice)
		}
	})
}
