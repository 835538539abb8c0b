package docpage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nstance.dev/server/driver/drivertest/docpage"
)

const page = `# A cloud

Tenants set ` + "`Size`" + ` and
` + "`Name`" + `; others only ` + "`here`" + `.
It asks for ` + "`may.make`" + ` and
` + "`may.pay`" + `. Have ` + "`money`" + ` at hand; or else.

## First

| call | when | permission |
|---|---|---|
| ` + "`Make`" + ` | always; with ` + "`x`" + ` twice | ` + "`may.make`, `may.pay`" + ` |
| ` + "`Look`" + ` | now and then | none |

## Second

` + "```sh" + `
cat > shard.jsonc <<EOF
{ "key": "$(pwgen)", "at": "$PWD" }
EOF
` + "```" + `

` + "```json" + `
{ "a": 1 }
` + "```" + `
`

func TestSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	calls, permissions := docpage.Read(t, path, "First").Calls()
	if !slices.Equal(calls, []string{"Make", "Look"}) || !slices.Equal(permissions, []string{"may.make", "may.pay"}) {
		t.Errorf("calls %q, permissions %q", calls, permissions)
	}
	if got := docpage.Listed(t, path, "Tenants set "); !slices.Equal(got, []string{"Size", "Name"}) {
		t.Errorf("tenants set %q", got)
	}
	if got := docpage.Listed(t, path, "It asks for "); !slices.Equal(got, []string{"may.make", "may.pay"}) {
		t.Errorf("it asks for %q", got)
	}
	second := docpage.Read(t, path, "Second")
	if got := second.Heredoc(); got != `{ "key": "e3sgLk5vbmNlIH19", "at": "e3sgLk5vbmNlIH19" }` {
		t.Errorf("the file is %s", got)
	}
	if got := second.Block("json"); got != `{ "a": 1 }` {
		t.Errorf("the block is %s", got)
	}
}

// listener hears what is wrong.
type listener struct {
	testing.TB
	heard []string
}

func (*listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) {
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

func TestSame(t *testing.T) {
	l := &listener{}
	docpage.Same(l, "call", []string{"b", "a", "c", "a"}, []string{"d", "c", "c"})
	want := []string{"call a is not on the page", "call b is not on the page", "call d is on the page, and is not the case"}
	if !slices.Equal(l.heard, want) {
		t.Errorf("heard %q, want %q", l.heard, want)
	}
}
