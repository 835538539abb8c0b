// Command webdigest fails unless the pages of the console were built from their sources.
package main

import (
	"fmt"
	"os"

	"nstance.dev/admin/console"
)

func main() {
	if err := console.CheckDigest(os.DirFS("admin/console/web")); err != nil {
		fmt.Fprintln(os.Stderr, "admin/console/web:", err)
		os.Exit(1)
	}
}
