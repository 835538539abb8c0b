// Command licences writes the page of documentation about the licences of what the programs are
// linked of; make generate runs it, at the root of the repository. With -copyright it writes the texts of those
// licences instead, as they lie in an image with the programs.
//
//	licences -tags disable_grpc_modules -out docs/reference/licences.md PACKAGE…
//	licences -tags disable_grpc_modules -copyright dist/build/copyright/nstance-agent ./agent/cmd/nstance-agent
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"nstance.dev/tools/release/licences"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("licences", flag.ContinueOnError)
	tags := flags.String("tags", "", "tags of the build")
	out := flags.String("out", "docs/reference/licences.md", "file to write")
	copyright := flags.String("copyright", "", "file to write the texts of the licences to; the page is not written then")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the packages of the programs")
	}
	modules, err := both(ctx, flags.Args(), []string{"-tags", *tags})
	if err != nil {
		return err
	}
	if *copyright != "" {
		return writeTexts(ctx, *copyright, flags.Args(), modules)
	}
	parts, err := licences.Parts(licences.ConsoleLock)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, []byte(licences.Page(modules, flags.Args(), parts)), 0o644) //nolint:gosec // a page for all
}

func writeTexts(ctx context.Context, file string, packages []string, modules []licences.Module) error {
	terms, err := licences.ReadTerms(ctx, modules)
	if err != nil {
		return err
	}
	var programs []string
	for _, p := range packages {
		programs = append(programs, filepath.Base(p))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // built files, for all
		return err
	}
	return os.WriteFile(file, []byte(terms.Of(programs...)), 0o644) //nolint:gosec // they are for all
}

// both are the modules on either processor that there are releases for.
func both(ctx context.Context, programs, build []string) ([]licences.Module, error) {
	all := map[string]licences.Module{}
	for _, arch := range []string{"amd64", "arm64"} {
		modules, err := licences.Of(ctx, programs, build, []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"})
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			m.Programs = append(m.Programs, all[m.Path].Programs...)
			slices.Sort(m.Programs)
			m.Programs = slices.Compact(m.Programs)
			all[m.Path] = m
		}
	}
	var merged []licences.Module
	for _, m := range all {
		merged = append(merged, m)
	}
	slices.SortFunc(merged, func(a, b licences.Module) int { return cmp.Compare(a.Path, b.Path) })
	return merged, nil
}
