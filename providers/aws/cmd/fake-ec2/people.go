package main

import (
	"encoding/json"
	"net/http"
	"time"

	"nstance.dev/providers/aws/awsfake"
)

// people puts what a person may ask of the account beside its API.
func people(cloud *awsfake.Cloud) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", cloud)
	mux.HandleFunc("GET /fake/machines", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(shown(cloud.Machines())) // who asked has gone, or has it
	})
	do := func(name string, act func(id string) bool) {
		mux.HandleFunc("POST /fake/machines/{id}/"+name, func(w http.ResponseWriter, r *http.Request) {
			if !act(r.PathValue("id")) {
				http.Error(w, "there is no machine "+r.PathValue("id")+" to which that can happen", http.StatusNotFound)
			}
		})
	}
	do("kill", cloud.Kill)
	do("hang", cloud.Hang)
	do("remove", cloud.Remove)
	do("interrupt", cloud.Interrupt)
	return mux
}

// machine is what a person is shown of one. User data holds a nonce and is left out.
type machine struct {
	ID         string            `json:"id"`
	State      string            `json:"state"`
	Type       string            `json:"type"`
	Subnet     string            `json:"subnet"`
	IP         string            `json:"ip"`
	Spot       bool              `json:"spot"`
	LaunchedAt time.Time         `json:"launched_at"`
	Tags       map[string]string `json:"tags"`
}

func shown(machines []awsfake.Machine) []machine {
	all := make([]machine, 0, len(machines))
	for _, m := range machines {
		all = append(all, machine{m.ID, string(m.State), m.Type, m.Subnet, m.IPv4.String(), m.Spot, m.LaunchedAt, m.Tags})
	}
	return all
}
