package main

import (
	"encoding/json"
	"net/http"

	"nstance.dev/providers/proxmox/proxmoxfake"
)

// withPeople is the API, and beside it what people do to a cluster without it.
func withPeople(cloud *proxmoxfake.Cloud) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", cloud)
	mux.HandleFunc("GET /fake/machines", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(shown(cloud.Machines())) // who asked has gone, or has it
	})
	do := func(pattern string, act func(r *http.Request) bool) {
		mux.HandleFunc("POST /fake/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			if !act(r) {
				http.Error(w, "there is nothing to which that can happen: "+r.URL.Path, http.StatusNotFound)
			}
		})
	}
	do("machines/{name}/kill", func(r *http.Request) bool { return cloud.Kill(r.PathValue("name")) })
	do("machines/{name}/remove", func(r *http.Request) bool { return cloud.Remove(r.PathValue("name")) })
	do("machines/{name}/move/{node}", func(r *http.Request) bool { return cloud.Move(r.PathValue("name"), r.PathValue("node")) })
	do("nodes/{node}/away", func(r *http.Request) bool { return cloud.SetOnline(r.PathValue("node"), false) })
	do("nodes/{node}/back", func(r *http.Request) bool { return cloud.SetOnline(r.PathValue("node"), true) })
	return mux
}

// shownMachine is a machine as people see it.
type shownMachine struct {
	VMID    int    `json:"vmid"`
	Name    string `json:"name"`
	Node    string `json:"node"`
	Running bool   `json:"running"`
	Tags    string `json:"tags"`
}

func shown(machines []proxmoxfake.Machine) []shownMachine {
	all := []shownMachine{}
	for _, m := range machines {
		all = append(all, shownMachine{m.VMID, m.Name, m.Node, m.Running, m.Config["tags"]})
	}
	return all
}
