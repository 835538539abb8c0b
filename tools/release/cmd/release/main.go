// Command release makes a release of programs that are built; make release runs it.
//
//	release -version v1.2.3 -commit 0123… -created 1790000000 -programs dist/build -out dist/release -nfpm bin/tools/nfpm
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"nstance.dev/tools/release"
)

type order struct {
	version                                         release.Version
	programs, share, images, charts, out, nfpm, key string
	arches                                          []string
	only                                            []string // packages; empty: a whole release
	builder                                         release.Builder
	tags                                            string // of the build
}

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o order
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.version.Name, "version", "", "version of the release")
	flags.StringVar(&o.version.Commit, "commit", "", "commit of which it is made, in full")
	created := flags.Int64("created", 0, "time of the commit, in seconds since 1970")
	arches := flags.String("arches", "amd64,arm64", "processors")
	flags.StringVar(&o.programs, "programs", "dist/build", "directory with the programs, in linux-ARCH")
	flags.StringVar(&o.share, "share", "dist/build/share", "directory with man and completions")
	flags.StringVar(&o.images, "images", "dist/build/images", "directory with an image layout for each program")
	flags.StringVar(&o.charts, "charts", "operator/charts", "directory of charts")
	flags.StringVar(&o.out, "out", "dist/release", "directory to write to")
	flags.StringVar(&o.nfpm, "nfpm", "bin/tools/nfpm", "program that makes packages")
	flags.StringVar(&o.key, "key", "", "file with the signing key; empty: nothing is signed")
	flags.StringVar(&o.tags, "tags", "disable_grpc_modules", "tags of the build")
	only := flags.String("only", "", "make these packages alone, for the processor of this machine")
	flags.StringVar(&o.builder.ID, "builder", "https://nstance.dev/builders/unattested", "who builds")
	flags.StringVar(&o.builder.Source, "source", "git+https://nstance.dev/nstance", "repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.version.Name == "" || o.version.Commit == "" || *created == 0 {
		return errors.New("-version, -commit and -created are required")
	}
	o.version.Created, o.arches = time.Unix(*created, 0), strings.Split(*arches, ",")
	if *only != "" {
		o.only, o.arches = strings.Split(*only, ","), []string{runtime.GOARCH}
	}
	o.builder.With = map[string]string{"arches": *arches}
	return o.carryOut(context.Background())
}

func (o order) carryOut(ctx context.Context) error {
	if err := o.manuals(ctx); err != nil {
		return err
	}
	for _, arch := range o.arches {
		if err := o.forArch(ctx, arch); err != nil {
			return err
		}
	}
	if len(o.only) > 0 {
		return nil
	}
	for from, to := range map[string]string{o.charts: "nstance-charts", o.images: "nstance-images"} {
		if err := o.folders(from, to); err != nil {
			return err
		}
	}
	return o.seal()
}

// manuals has each program with commands write its manual pages.
func (o order) manuals(ctx context.Context) error {
	names := []string{"nstance-admin"}
	for _, p := range release.Providers {
		names = append(names, "nstance-server-"+p)
	}
	for _, name := range names {
		if !o.wants(name) {
			continue
		}
		program, err := filepath.Abs(filepath.Join(o.programs, "linux-"+runtime.GOARCH, name))
		if err != nil {
			return err
		}
		if err := release.Manuals(ctx, program, o.share, o.version); err != nil {
			return err
		}
	}
	return nil
}

func (o order) wants(pkg string) bool { return len(o.only) == 0 || slices.Contains(o.only, pkg) }

// forArch makes the packages, the archives and the bills of one processor.
func (o order) forArch(ctx context.Context, arch string) error {
	programs := filepath.Join(o.programs, "linux-"+arch)
	terms, err := o.termsFor(ctx, arch)
	if err != nil {
		return err
	}
	packager := release.Packager{Nfpm: o.nfpm, Version: o.version, Out: filepath.Join(o.out, "packages")}
	for _, pkg := range release.Manifest(programs, "deploy", o.share) {
		if !o.wants(pkg.Name) {
			continue
		}
		pkg.Files = append(pkg.Files, terms(pkg.Name))
		for _, form := range []string{"deb", "rpm"} {
			if err := packager.Make(ctx, pkg, arch, form); err != nil {
				return err
			}
		}
		if err := o.archive(pkg.Name, arch, pkg.Files); err != nil {
			return err
		}
	}
	if len(o.only) > 0 {
		return nil
	}
	operator := []release.File{terms("nstance-operator", "nstance-pod-demand")}
	for _, name := range []string{"nstance-operator", "nstance-pod-demand"} {
		operator = append(operator, release.File{From: programs + "/" + name, To: "usr/bin/" + name, Mode: 0o755})
	}
	if err := o.archive("nstance-operator", arch, operator); err != nil {
		return err
	}
	entries, err := os.ReadDir(programs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		bill, err := release.BillOfMaterials(filepath.Join(programs, e.Name()), o.version)
		if err != nil {
			return err
		}
		if err := o.write(fmt.Sprintf("sbom/%s_%s.cdx.json", e.Name(), arch), bill); err != nil {
			return err
		}
	}
	return nil
}

func (o order) archive(name, arch string, files []release.File) error {
	full := fmt.Sprintf("%s_%s_linux_%s", name, o.version.Package(), arch)
	files = append(files, release.File{From: "LICENSE", To: "LICENSE", Mode: 0o644})
	data, err := release.Archive(full, files, o.version.Created)
	if err != nil {
		return err
	}
	return o.write("archives/"+full+".tar.gz", data)
}

// folders packs each folder in from: a chart as helm installs it, or an image layout.
func (o order) folders(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		files, err := release.Tree(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		data, err := release.Archive(e.Name(), files, o.version.Created)
		if err != nil {
			return err
		}
		if err := o.write(fmt.Sprintf("%s/%s_%s.tgz", strings.TrimPrefix(to, "nstance-"), e.Name(), o.version.Package()), data); err != nil {
			return err
		}
	}
	return nil
}

// seal writes the checksums of all that is there, and the statement of provenance; with a
// key, both are signed.
func (o order) seal() error {
	sums, err := release.Sums(o.out)
	if err != nil {
		return err
	}
	statement, err := release.Provenance(sums, o.version, o.builder)
	if err != nil {
		return err
	}
	sealed := map[string][]byte{"SHA256SUMS": release.Checksums(sums), "provenance.intoto.json": statement}
	for name, data := range sealed {
		if err := o.write(name, data); err != nil {
			return err
		}
	}
	if o.key == "" {
		return nil
	}
	key, err := os.ReadFile(o.key)
	if err != nil {
		return err
	}
	for name, data := range sealed {
		signature, err := release.Sign(key, data)
		if err != nil {
			return err
		}
		if err := o.write(name+".sig", signature); err != nil {
			return err
		}
	}
	public, err := release.PublicKey(key)
	if err != nil {
		return err
	}
	return o.write("nstance-release.pub", public)
}

func (o order) write(name string, data []byte) error { return release.Write(o.out, name, data) }
