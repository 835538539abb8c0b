// Command components makes of the operator's chart what clusterctl installs.
//
//	components -operator operator -out dist/clusterctl
//
// It prints the path of infrastructure-components.yaml, which is the url of the provider in
// clusterctl's configuration.
package main

import (
	"flag"
	"fmt"
	"os"

	"nstance.dev/e2e/repo/components"
)

func main() {
	operator := flag.String("operator", "operator", "directory of the operator's module")
	out := flag.String("out", "dist/clusterctl", "repository for clusterctl, made if need be")
	flag.Parse()
	path, err := components.Write(*operator, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "components:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
