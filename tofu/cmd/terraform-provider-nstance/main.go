// Command terraform-provider-nstance is the provider of Nstance for OpenTofu and Terraform. OpenTofu starts it.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"nstance.dev/tofu/provider"
)

// version is set by the linker.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger, and print how OpenTofu reaches this process")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{Address: provider.Address, Debug: *debug, ProtocolVersion: 6})
	if err != nil {
		log.Fatal(err)
	}
}
