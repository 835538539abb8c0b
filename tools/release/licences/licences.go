// Package licences finds the modules that programs are linked of, and the licence of each by its
// text. It decides nothing about them but that a licence which nobody has looked at yet is an error.
// [Page] tells of them for readers, [Texts] is what who gives a program away has to add.
package licences

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Module is a module of others that is linked into a program.
type Module struct {
	Path, Version string
	Licences      []string // names of SPDX, sorted, at least one
	Programs      []string // by name, sorted
	Texts         []string // of the licences, and of notices that must go along
}

// known are the licences under which parts may be linked into what Nstance gives away.
var known = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "Unlicense", "Zlib"}

// licenceFile is how the files with the text are called. Texts for a logo or for pages have other names, and are
// of what no program is linked of; a list of what parts came from elsewhere has text between the licences.
var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-](txt|md|markdown|rst|code|mit|apache|apache-?2(\.0)?|bsd|isc|mpl(-2\.0)?|3rd-party))*$`)
	listFile    = regexp.MustCompile(`(?i)3rd-party`)
	noticeFile  = regexp.MustCompile(`(?i)^notice([.-](txt|md))?$`)
)

// listed is what go list says about a package.
type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
}

// Of returns the modules of programs, which are packages of commands, sorted by path. Flags are those of
// the build, and env is added to the environment.
func Of(ctx context.Context, programs, flags, env []string) ([]Module, error) {
	modules := map[string]*Module{}
	dirs := map[string]map[string]bool{} // of the packages that are linked, by module
	roots := map[string]string{}
	for _, program := range programs {
		packages, err := list(ctx, append(slices.Clone(flags), program), env)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(program)
		for _, p := range packages {
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := modules[p.Module.Path]
			if m == nil {
				m = &Module{Path: p.Module.Path, Version: p.Module.Version}
				if p.Module.Replace != nil {
					m.Version = p.Module.Replace.Version
				}
				modules[m.Path], dirs[m.Path], roots[m.Path] = m, map[string]bool{}, p.Module.Dir
			}
			dirs[m.Path][p.Dir] = true
			if !slices.Contains(m.Programs, name) {
				m.Programs = append(m.Programs, name)
			}
		}
	}
	var all []Module
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		var err error
		if m.Licences, m.Texts, err = in(roots[path], slices.Sorted(maps.Keys(dirs[path]))); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", path, m.Version, err))
		}
		slices.Sort(m.Programs)
		all = append(all, *m)
	}
	return all, errors.Join(errs...)
}

func list(ctx context.Context, args, env []string) ([]listed, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=Dir,Module"}, args...)...) //nolint:gosec // the build's own arguments
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages of %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		packages = append(packages, p)
	}
}

// in names the licences of a module, and returns their texts: those at its root, and those between there and each
// package.
func in(root string, packages []string) (names, texts []string, err error) {
	looked, found := map[string]bool{}, map[string]bool{}
	for _, dir := range append([]string{root}, packages...) {
		for ; !looked[dir] && strings.HasPrefix(dir, root); dir = filepath.Dir(dir) {
			looked[dir] = true
			some, err := at(dir, found)
			if err != nil {
				return nil, nil, err
			}
			texts = append(texts, some...)
		}
	}
	if len(found) == 0 {
		return nil, nil, errors.New("it has no file with a licence")
	}
	return slices.Sorted(maps.Keys(found)), texts, nil
}

// at adds the licences in the files of one directory, and returns the texts.
func at(dir string, found map[string]bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, entry := range entries {
		isLicence := licenceFile.MatchString(entry.Name())
		if entry.IsDir() || !isLicence && !noticeFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
		if !isLicence {
			continue
		}
		least := 60.0
		if listFile.MatchString(entry.Name()) {
			least = 0
		}
		names, err := recognize(text, least)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for _, name := range names {
			found[name] = true
		}
	}
	return texts, nil
}

// Recognize names the licences of a text. It fails where a good part of the text is of none, or
// one is not among those that were looked at.
func Recognize(text []byte) ([]string, error) { return recognize(text, 60) }

func recognize(text []byte, least float64) ([]string, error) {
	cover := licensecheck.Scan(text)
	var names []string
	for _, match := range cover.Match {
		name := match.ID
		if match.IsURL {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("licence %s: nobody has looked at whether it may be linked", name)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || cover.Percent < least {
		return nil, fmt.Errorf("%.0f%% of its text is of a licence that is known", cover.Percent)
	}
	slices.Sort(names)
	return names, nil
}
