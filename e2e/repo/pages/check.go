package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrUnknown is matched by the error for a command of a program that is not known here.
var ErrUnknown = errors.New("not known here")

// ErrNothing is matched by the error for a block in which nothing was there to check.
var ErrNothing = errors.New("it has ordinary commands alone, of which nothing can be checked")

// Checker checks commands without running them. It is made by [NewChecker].
type Checker struct {
	root     string
	programs Programs
	makefile makefile
	kubectl  *kubectl
	chart    *chart
	units    []string
	paths    paths
}

// Programs asks one of our programs what it says about arguments, the last of which is
// --help: they parse the arguments before them, and do nothing.
type Programs func(program string, args []string) (string, error)

// NewChecker returns a checker of commands that are typed in root, a clone of the repository.
func NewChecker(root string, programs Programs) (*Checker, error) {
	c := &Checker{root: root, programs: programs}
	var err error
	if c.makefile, err = readMakefile(filepath.Join(root, "Makefile")); err != nil {
		return nil, err
	}
	if c.kubectl, err = newKubectl(root); err != nil {
		return nil, err
	}
	if c.chart, err = loadChart(root); err != nil {
		return nil, err
	}
	if c.paths, err = readPaths(root); err != nil {
		return nil, err
	}
	units, err := os.ReadDir(filepath.Join(root, "deploy", "systemd"))
	if err != nil {
		return nil, err
	}
	for _, unit := range units {
		c.units = append(c.units, unit.Name())
	}
	return c, nil
}

// Check returns all that is wrong with the commands of a block, and an error that matches
// [ErrUnknown] for each that it knows nothing about, or one that matches [ErrNothing].
func (c *Checker) Check(b Block) []error {
	calls, err := callsOf(b.commands())
	if err != nil {
		return []error{err}
	}
	var errs []error
	checked := 0
	for _, call := range calls {
		name, err := c.check(call)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if !ordinary[name] {
			checked++
		}
	}
	if checked == 0 {
		errs = append(errs, ErrNothing)
	}
	return errs
}

// check looks at one command, and returns the program's name.
func (c *Checker) check(call call) (string, error) {
	words := call.words
	for len(words) > 1 && words[0] == "sudo" {
		words = words[1:]
	}
	place, args := words[0], words[1:]
	name := path.Base(place)
	switch {
	case !fixed(place):
		return name, fmt.Errorf("the program's name: %w", ErrUnknown)
	case strings.HasPrefix(name, "nstance-"):
		return name, c.ours(name, args)
	case name == "kubectl":
		return name, c.kubectl.check(args, call)
	case name == "helm":
		return name, c.chart.check(args)
	case name == "make":
		return name, c.makefile.check(args)
	case name == "go":
		return name, c.golang(args)
	case name == "curl":
		return name, c.paths.check(args)
	case name == "systemctl" || name == "journalctl":
		return name, c.unit(args)
	case strings.HasPrefix(place, "deploy/"):
		return name, c.script(place, args)
	case ordinary[name]:
		return name, nil
	}
	return name, ErrUnknown
}

// ordinary are the programs that every box has, and words of the shell itself: whoever
// types them knows them, and what they do here is between other commands.
var ordinary = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`. : [ break cat cd chmod chown cp cut date echo env exit export false find grep head install
		jq kill ls mkdir mv od paste pkill printf ps pwd read rm sed set sha256sum sleep sort tail tar tee test touch tr trap true
		umask unset until wait wc xargs`) {
		names[name] = true
	}
	return names
}()

// ours has the program itself read the arguments.
func (c *Checker) ours(program string, args []string) error {
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, unknown, "x")
	}
	help, err := c.programs(program, append(args, "--help"))
	if err != nil {
		return err
	}
	if strings.Contains(help, " [command]\n") && len(args) > 0 {
		return fmt.Errorf("%s: there is no such command", strings.Join(args, " "))
	}
	return nil
}

// unit demands that a unit of ours exists.
func (c *Checker) unit(args []string) error {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "nstance-") {
			continue
		}
		if !slices.Contains(c.units, arg) && !slices.Contains(c.units, arg+".service") {
			return fmt.Errorf("%s: there is no such unit in deploy/systemd", arg)
		}
	}
	return nil
}

// script demands that a script of the repository exists and knows its flags.
func (c *Checker) script(name string, args []string) error {
	text, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "--") && !strings.Contains(string(text), flag+")") {
			return fmt.Errorf("%s is no flag of it", flag)
		}
	}
	return nil
}

// exists demands that what looks like a path within the repository is one. Other paths, and
// bare names, are the reader's own.
func exists(root, name string) error {
	first, _, deeper := strings.Cut(strings.TrimPrefix(name, "./"), "/")
	if !deeper || !fixed(name) || path.IsAbs(name) || !slices.Contains([]string{"deploy", "docs", "e2e", "operator", "providers", "server", "tools"}, first) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no such file in the repository", name)
	} else if err != nil {
		return err
	}
	return nil
}

// Objects returns what is wrong with the objects of Kubernetes that a block in YAML holds; nil for
// a block that holds something else.
func (c *Checker) Objects(b Block) error {
	if b.Language != "yaml" || !strings.HasPrefix(b.Text, "apiVersion:") {
		return nil
	}
	return c.kubectl.objects(b.Text)
}
