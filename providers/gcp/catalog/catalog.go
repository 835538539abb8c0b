// Package catalog says which machine types a zone has, and how many addresses a subnet has
// left.
package catalog

import (
	"time"

	"nstance.dev/providers/gcp/api"
)

// Catalog is what a zone offers. Make it with [New]. Methods are safe for concurrent use.
type Catalog struct {
	api    *api.Client
	prices map[string]float64
	now    func() time.Time
	types  typeCache
}

// New returns the catalog behind a client. It asks nothing. prices are those of an hour of
// a machine type, in USD; now decides how long answers are kept.
func New(client *api.Client, prices map[string]float64, now func() time.Time) *Catalog {
	return &Catalog{api: client, prices: prices, now: now}
}
