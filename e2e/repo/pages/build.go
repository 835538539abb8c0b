package pages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// makefile is what can be asked of make.
type makefile struct{ targets, variables map[string]bool }

var (
	targetLine   = regexp.MustCompile(`(?m)^([a-z][a-z0-9 $(),-]*):(?:[^=]|$)`)
	variableLine = regexp.MustCompile(`(?m)^([A-Z][A-Z0-9_]*) *\??[:]?=`)
)

func readMakefile(name string) (makefile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return makefile{}, err
	}
	m := makefile{targets: map[string]bool{}, variables: map[string]bool{"KUBECONFIG": true}} // that comes from the environment
	for _, line := range targetLine.FindAllStringSubmatch(string(text), -1) {
		for _, target := range strings.Fields(line[1]) {
			m.targets[target] = true
		}
	}
	for _, line := range variableLine.FindAllStringSubmatch(string(text), -1) {
		m.variables[line[1]] = true
	}
	return m, nil
}

func (m makefile) check(args []string) error {
	var errs []error
	for _, arg := range args {
		name, _, assigns := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "-"):
		case assigns && !m.variables[name]:
			errs = append(errs, fmt.Errorf("the Makefile has no variable %s", name))
		case !assigns && !m.targets[arg]:
			errs = append(errs, fmt.Errorf("the Makefile has no target %s", arg))
		}
	}
	return errors.Join(errs...)
}

// golang demands that packages of this repository exist, and a test that is asked for.
func (c *Checker) golang(args []string) error {
	if len(args) == 0 || args[0] != "build" && args[0] != "test" && args[0] != "run" {
		return nil
	}
	var errs []error
	var dirs []string
	run := ""
	for i, arg := range args[1:] {
		if place, ok := strings.CutPrefix(arg, "./"); ok {
			dirs = append(dirs, place)
		}
		if arg == "-run" && i+2 < len(args) {
			run = args[i+2]
		}
	}
	if len(dirs) == 0 {
		return fmt.Errorf("no package of this repository: %w", ErrUnknown)
	}
	found := run == ""
	for _, dir := range dirs {
		place := filepath.Join(c.root, filepath.FromSlash(strings.TrimSuffix(dir, "/...")))
		if info, err := os.Stat(place); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("./%s: there is no such directory", dir))
			continue
		}
		if !found {
			first, _, _ := strings.Cut(run, "/")
			var err error
			if found, err = hasTest(place, strings.TrimSuffix(first, "$")); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if !found {
		errs = append(errs, fmt.Errorf("-run %s: there is no such test", run))
	}
	return errors.Join(errs...)
}

// hasTest says whether the files of a directory have a test whose name begins so.
func hasTest(dir, prefix string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if strings.Contains(string(text), "\nfunc "+prefix) {
			return true, nil
		}
	}
	return false, nil
}
