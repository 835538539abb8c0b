// Package gcp is Google Compute Engine as a [nstance.dev/server/driver.Driver].
package gcp

import (
	_ "cloud.google.com/go/compute/apiv1"
	_ "cloud.google.com/go/compute/apiv1/computepb"
	_ "cloud.google.com/go/compute/metadata"
	_ "google.golang.org/api/option"
	_ "nstance.dev/protos/identity"
	_ "nstance.dev/server/serve"
)
