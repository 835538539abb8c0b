// Command site makes a static site of the pages of this repository, or draws the diagrams
// in them.
package main

import (
	"flag"
	"fmt"
	"os"

	"nstance.dev/tools/site"
)

func main() {
	root := flag.String("root", ".", "the repository")
	out := flag.String("out", "dist/site", "the folder to write; what is in it goes")
	mermaid := flag.String("draw", "", "draw the diagrams that are not drawn yet with this mermaid.min.js and Chromium, and write no site")
	flag.Parse()
	if err := run(*root, *out, *mermaid); err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
}

func run(root, out, mermaid string) error {
	if mermaid != "" {
		return site.Draw(root, mermaid)
	}
	return site.Build(root, out)
}
