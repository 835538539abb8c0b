package cli_test

import (
	"strings"
	"testing"

	"nstance.dev/admin/cli"
)

func TestErrorsAboutArgumentsNameThem(t *testing.T) {
	for command, want := range map[string]string{
		"group scale":         "error: GROUP and SIZE are missing; usage: nstance-admin group scale GROUP SIZE\n",
		"group scale web":     "error: SIZE is missing; usage: nstance-admin group scale GROUP SIZE\n",
		"group scale web 1 x": `error: argument "x" is too much after GROUP and SIZE; usage: nstance-admin group scale GROUP SIZE` + "\n",
		"group list x":        `error: argument "x" is too much: the command takes none; usage: nstance-admin group list` + "\n",
		"group delete":        "error: GROUP is missing; usage: nstance-admin group delete GROUP...\n",
		"cluster nonce x":     `error: argument "x" is too much: the command takes none; usage: nstance-admin cluster nonce` + "\n",
		"mcfg diff a":         "error: VERSION is missing; usage: nstance-admin mcfg diff CONFIGURATION VERSION [VERSION]\n",
		"mcfg diff a 1 2 3":   `error: argument "3" is too much after CONFIGURATION, VERSION and VERSION; usage: `,
	} {
		c := newConsole(t)
		if got := c.fails(t, cli.ExitUsage, strings.Fields(command)...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: errors are %q, want %q", command, got, want)
		}
	}
}
