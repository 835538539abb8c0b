package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"nstance.dev/providers/gcp/gcpfake"
)

// withPeople is the API, and beside it what people do to machines without it.
func withPeople(cloud *gcpfake.Cloud) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", cloud)
	mux.HandleFunc("GET /fake/machines", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(shown(cloud.Machines())) // who asked has gone, or has it
	})
	do := func(name string, act func(name string) bool) {
		mux.HandleFunc("POST /fake/machines/{name}/"+name, func(w http.ResponseWriter, r *http.Request) {
			if !act(r.PathValue("name")) {
				http.Error(w, fmt.Sprintf("there is no machine %s to which that can happen", r.PathValue("name")), http.StatusNotFound)
			}
		})
	}
	do("kill", cloud.Kill)
	do("remove", cloud.Remove)
	do("interrupt", cloud.Interrupt)
	return mux
}

// shownMachine is a machine as people see it; without its metadata, in which secrets
// are.
type shownMachine struct {
	Name   string            `json:"name"`
	Zone   string            `json:"zone"`
	Type   string            `json:"type"`
	Status string            `json:"status"`
	IP     string            `json:"ip"`
	Spot   bool              `json:"spot"`
	Labels map[string]string `json:"labels"`
}

func shown(machines []gcpfake.Machine) []shownMachine {
	all := []shownMachine{}
	for _, m := range machines {
		all = append(all, shownMachine{m.Name, m.Zone, m.Type, m.Status, m.IP.String(), m.Spot, m.Labels})
	}
	return all
}
