package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Manuals writes the manual pages of a program, one for each command, into DIR/man/PROGRAM, and
// what completes its commands in DIR/completions. It runs the program, which says what
// there is to say by --help.
func Manuals(ctx context.Context, program, dir string, v Version) error {
	name := filepath.Base(program)
	pages := map[string][]byte{}
	if err := manuals(ctx, program, []string{name}, v, pages); err != nil {
		return err
	}
	for page, text := range pages {
		if err := Write(filepath.Join(dir, "man", name), page, text); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, err := ask(ctx, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := Write(dir, "completions/"+name+"."+shell, out); err != nil {
			return err
		}
	}
	return nil
}

func manuals(ctx context.Context, program string, command []string, v Version, pages map[string][]byte) error {
	help, err := ask(ctx, program, append(command[1:len(command):len(command)], "--help")...)
	if err != nil {
		return err
	}
	page, below := Page(command, string(help), v)
	pages[strings.Join(command, "-")+".1"] = page
	for _, sub := range below {
		if err := manuals(ctx, program, append(command[:len(command):len(command)], sub), v, pages); err != nil {
			return err
		}
	}
	return nil
}

// ask runs a program as nobody in particular: what it says must not depend on who asks.
func ask(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = []string{"HOME=/nonexistent", "LANG=C"}, os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return out, nil
}

var (
	heading    = regexp.MustCompile(`^([A-Z][A-Za-z ]*):$`)
	subcommand = regexp.MustCompile(`^  ([a-z][a-z0-9-]*) +\S`)
)

// Page is the manual page of a command whose --help says this, and which commands are below it.
func Page(command []string, help string, v Version) (page []byte, below []string) {
	var out strings.Builder
	name := strings.Join(command, "-")
	fmt.Fprintf(&out, ".TH %s 1 %q %q %q\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n",
		roff(strings.ToUpper(name)), v.Created.UTC().Format("2006-01-02"), v.Package(), "Nstance", roff(name), roff(summary(help)))
	section := ""
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, " \n")
		if strings.HasPrefix(line, `Use "`) {
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil {
			section = h[1]
			fmt.Fprintf(&out, ".fi\n.SH %s\n.nf\n", strings.ToUpper(section))
			continue
		}
		if sub := subcommand.FindStringSubmatch(line); sub != nil && strings.HasSuffix(section, "Commands") && sub[1] != "help" {
			below = append(below, sub[1])
		}
		out.WriteString(roff(line) + "\n")
	}
	out.WriteString(".fi\n")
	return []byte(out.String()), below
}

func summary(help string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(help), "\n")
	return strings.TrimSuffix(line, ".")
}

// roff keeps text from being read as requests of roff.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
