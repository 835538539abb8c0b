package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/cli"
)

func TestInstanceLogs(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	for _, what := range []struct {
		name       string
		write      string
		args       []string
		want, said string
	}{
		{"nothing yet", "", []string{"logs", id}, "", "nothing has been written to its console yet\n"},
		{"what there is", "one\ntwo\nthree\n", []string{"logs", id}, "one\ntwo\nthree\n", ""},
		{"its end", "one\ntwo\nthree\n", []string{"console", id, "--tail", "2"}, "two\nthree\n", ""},
		{"more lines than there are", "one\ntwo\n", []string{"logs", id, "--tail", "9"}, "one\ntwo\n", ""},
		{"a line that is being written", "one\nlogin: ", []string{"logs", id}, "one\nlogin: \n", ""},
		{"what a terminal would obey", "a\x1b[2Jb\n", []string{"logs", id}, "a [2Jb\n", ""},
		{"what is masked", "token [nonce masked]\n", []string{"logs", id}, "token [nonce masked]\n", "masked in 1 places: nonces, user data, private keys\n"},
		{"for programs", "one\n", []string{"logs", id, "-o", "jsonpath={.source} {.text}"}, "console one\n", ""},
	} {
		t.Run(what.name, func(t *testing.T) {
			c.local.Write(id, what.write)
			before := len(c.err.String())
			if got := c.ok(t, append([]string{"instance"}, what.args...)...); strings.TrimSuffix(got, "\n") != strings.TrimSuffix(what.want, "\n") {
				t.Errorf("printed %q, want %q", got, what.want)
			}
			if got := c.err.String()[before:]; got != what.said {
				t.Errorf("said %q, want %q", got, what.said)
			}
		})
	}
}

func TestInstanceLogsRefused(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	for _, call := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"logs"}, cli.ExitUsage, "INSTANCE"},
		{[]string{"logs", id, "--tail", "-1"}, cli.ExitUsage, "--tail -1 is negative"},
		{[]string{"logs", id, "--follow", "-o", "json"}, cli.ExitUsage, "take it without -o"},
		{[]string{"logs", id, "--follow", "--interval", "1ms"}, cli.ExitUsage, "less than 200ms"},
		{[]string{"logs", id, "--source", "log"}, cli.ExitFailed, "has no log of machines; ask for source console"},
		{[]string{"console", "dev00000000000000000000000000"}, cli.ExitFailed, "not found"},
	} {
		if got := c.fails(t, call.code, append([]string{"instance"}, call.args...)...); !strings.Contains(got, call.want) || strings.Contains(got, "static group") {
			t.Errorf("%q: %q, want %q", call.args, got, call.want)
		}
	}
}

// What is written while it is followed comes once, line by line, also where the beginning is gone meanwhile.
func TestInstanceLogsAreFollowed(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	c.local.Write(id, "one\ntwo\nthr")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	looks, before := 0, len(c.out.String())
	c.local.OnOutput = func() {
		switch looks++; looks {
		case 2:
			c.local.Write(id, "one\ntwo\nthree\n")
		case 3:
			c.local.Write(id, "two\nthree\nfour\n") // the first line is kept no more
		case 4:
			c.local.Write(id, "eight\n")
		case 5:
			cancel()
		}
	}
	if code := c.run(ctx, "instance", "logs", id, "--follow", "--tail", "1", "--interval", "200ms"); code != 0 {
		t.Errorf("exit code %d: %s", code, c.err.String())
	}
	if got, want := c.out.String()[before:], "two\nthree\nfour\neight\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got := c.err.String(); !strings.Contains(got, "some lines may be missing here\n") {
		t.Errorf("said %q", got)
	}
}
