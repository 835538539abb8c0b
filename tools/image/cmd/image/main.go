// Command image packs a static program into container images, and others beside it.
//
//	image -name nstance-operator -ref registry.example/nstance-operator:v1.2.3 -out dist/image amd64=bin/amd64/nstance-operator
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nstance.dev/tools/image"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var spec image.Spec
	flags.StringVar(&spec.Name, "name", "", "name of the program in the image")
	flags.StringVar(&spec.Version, "version", "", "version of the program")
	flags.StringVar(&spec.Source, "source", "", "where its source is")
	flags.StringVar(&spec.Licenses, "licenses", "", "licence of the program, an SPDX expression")
	copyright := flags.String("copyright", "", "file with the licences of all that is in the image; empty: none is in it")
	created := flags.Int64("created", 0, "when it was made, in seconds since 1970")
	reference := flags.String("ref", "", "name of the image, with its registry and tag")
	out := flags.String("out", "", "directory to write to")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: image [flags] ARCH=PROGRAM[,PROGRAM ...] ...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	spec.Created = time.Unix(*created, 0)
	if *out == "" {
		return errors.New("-out is required")
	}
	if *copyright != "" {
		text, err := os.ReadFile(*copyright)
		if err != nil {
			return err
		}
		if len(text) == 0 {
			return fmt.Errorf("-copyright: %s is empty", *copyright)
		}
		spec.Copyright = text
	}
	images, err := pack(spec, flags.Args())
	if err != nil {
		return err
	}
	if err := image.Write(*out, *reference, images); err != nil {
		return err
	}
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		digest, err := images[arch].Digest()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, arch, digest)
	}
	return nil
}

// pack returns the images of programs that are given as ARCH=PATH.
func pack(spec image.Spec, programs []string) (map[string]v1.Image, error) {
	images := map[string]v1.Image{}
	for _, argument := range programs {
		arch, paths, found := strings.Cut(argument, "=")
		if !found || images[arch] != nil {
			return nil, fmt.Errorf("%q: want ARCH=PROGRAM[,PROGRAM ...], each processor once", argument)
		}
		var all []image.Program
		for path := range strings.SplitSeq(paths, ",") {
			program, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, image.Program{Name: filepath.Base(path), File: program})
		}
		var err error
		if images[arch], err = image.New(spec, arch, all[0].File, all[1:]...); err != nil {
			return nil, err
		}
	}
	return images, nil
}
