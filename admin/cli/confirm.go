package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// changeFlags are those of a command that changes something.
type changeFlags struct {
	dryRun bool
	yes    bool // do not ask
}

// addDryRunFlag gives a command the flag to show only what it would do.
func addDryRunFlag(cmd *cobra.Command) *changeFlags {
	f := &changeFlags{}
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be done, and change nothing")
	return f
}

// addEndingFlags gives a command that may end machines the flag to go on without a
// question, too.
func addEndingFlags(cmd *cobra.Command) *changeFlags {
	f := addDryRunFlag(cmd)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask before machines are deleted; it is asked on a terminal alone")
	return f
}

// asks reports whether somebody is there to be asked.
func (f *changeFlags) asks(env *Env) bool { return env.Prompt && !f.yes && !f.dryRun }

var errDeclined = errors.New("not confirmed: nothing was changed; --yes goes on without a question")

// confirm asks on a terminal whether machines may end, as the text says. Anything
// but yes is an error.
func (f *changeFlags) confirm(env *Env, format string, args ...any) error {
	if !f.asks(env) {
		return nil
	}
	fmt.Fprintf(env.Err, format+" Go on? [y/N] ", args...)
	answer, err := readLine(env.In)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// readLine reads one line and nothing that follows it.
func readLine(r io.Reader) (string, error) {
	if buffered, ok := r.(*bufio.Reader); ok {
		return buffered.ReadString('\n')
	}
	var line []byte
	one := make([]byte, 1)
	for {
		n, err := r.Read(one)
		if n > 0 && one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[:n]...)
		if err != nil || len(line) > 1000 {
			return string(line), err
		}
	}
}

// machines says how many machines there are, as a sentence does.
func machines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}
