// Command texts writes what the product says to people, text by text, as a page for its
// documentation.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"nstance.dev/e2e/repo/texts"
)

func main() {
	root := flag.String("root", ".", "the root of the repository")
	out := flag.String("out", "docs/reference/texts.md", "the page to write")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		log.Fatal(err)
	}
}

func run(root, out string) error {
	all, err := texts.Collect(root)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, []byte(texts.Page(all)), 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
