package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// The calls of this file are about one shard or all of them: `?shard=NAME` or
// `?all_shards=true`, or neither where there is one shard only. A shard that fails says so
// in its entry.

// configEntry is the configuration of one shard.
type configEntry struct {
	Shard        string     `json:"shard"`
	ETag         string     `json:"etag,omitempty"`
	LastModified *time.Time `json:"last_modified,omitempty"`
	Size         *int32     `json:"size,omitempty"`
	Error        string     `json:"error,omitempty"`
}

func (e configEntry) failed() bool { return e.Error != "" }

// configStatus says which configuration is in force.
func (g *Gateway) configStatus(w http.ResponseWriter, r *http.Request) {
	several(g, w, r, "shards", func(s *shard) configEntry {
		c, err := s.api.GetConfigStatus(r.Context(), &emptypb.Empty{})
		if err != nil {
			return configEntry{Shard: s.Name, Error: status.Convert(err).Message()}
		}
		return configEntry{Shard: s.Name, ETag: c.GetEtag(), LastModified: new(c.GetLastModified().AsTime()), Size: new(c.GetSize())}
	})
}

// refreshEntry says whether the configuration of one shard has changed.
type refreshEntry struct {
	Shard   string `json:"shard"`
	Updated bool   `json:"updated"`
	ETag    string `json:"etag,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (e refreshEntry) failed() bool { return e.Error != "" }

// configRefresh has the configuration read again.
func (g *Gateway) configRefresh(w http.ResponseWriter, r *http.Request) {
	several(g, w, r, "shards", func(s *shard) refreshEntry {
		c, err := s.api.RefreshConfig(r.Context(), &emptypb.Empty{})
		if err != nil {
			return refreshEntry{Shard: s.Name, Error: status.Convert(err).Message()}
		}
		return refreshEntry{Shard: s.Name, Updated: c.GetUpdated(), ETag: c.GetEtag()}
	})
}

// scaleEntry says how large a group of one shard is now.
type scaleEntry struct {
	Shard string `json:"shard"`
	Group string `json:"group"`
	Size  *int32 `json:"size,omitempty"`
	Error string `json:"error,omitempty"`
}

func (e scaleEntry) failed() bool { return e.Error != "" }

// groupScale sets the size of a group, on each of the shards.
func (g *Gateway) groupScale(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Group string `json:"group"`
		Size  *int32 `json:"size"`
	}
	data, err := readBody(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&want); err != nil || decoder.More() || want.Group == "" || want.Size == nil {
		WriteError(w, Errorf(codes.InvalidArgument, "BAD_BODY", `body: it must be of the form {"group": "KEY", "size": 5}`))
		return
	}
	several(g, w, r, "results", func(s *shard) scaleEntry {
		group, err := s.api.UpsertGroup(r.Context(), &nstancev1.UpsertGroupRequest{Key: want.Group, Config: &nstancev1.GroupConfig{Size: want.Size}})
		if err != nil {
			return scaleEntry{Shard: s.Name, Group: want.Group, Error: status.Convert(err).Message()}
		}
		return scaleEntry{Shard: s.Name, Group: group.GetKey(), Size: new(group.GetSize())}
	})
}

// several asks the shards that a request selects, and answers with their entries: 200, or
// 207 where some failed, or 502 where all did.
func several[T interface{ failed() bool }](g *Gateway, w http.ResponseWriter, r *http.Request, list string, ask func(*shard) T) {
	names, err := g.selected(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	entries := onAll(g, names, ask)
	failed := 0
	for _, e := range entries {
		if e.failed() {
			failed++
		}
	}
	httpStatus := http.StatusOK
	switch failed {
	case 0:
	case len(entries):
		httpStatus = http.StatusBadGateway
	default:
		httpStatus = http.StatusMultiStatus
	}
	writeJSON(w, httpStatus, map[string]any{list: entries})
}

func (g *Gateway) selected(r *http.Request) ([]string, error) {
	q := r.URL.Query()
	for name := range q {
		if name != "shard" && name != "all_shards" {
			return nil, Errorf(codes.InvalidArgument, "UNKNOWN_PARAMETER", "parameter %q must be one of shard, all_shards", name)
		}
	}
	all := false
	if q.Has("all_shards") {
		var err error
		if all, err = strconv.ParseBool(q.Get("all_shards")); err != nil {
			return nil, Errorf(codes.InvalidArgument, "BAD_PARAMETER", "all_shards: %q must be true or false", q.Get("all_shards"))
		}
	}
	name := q.Get("shard")
	switch {
	case all && name != "":
		return nil, Errorf(codes.InvalidArgument, "BAD_PARAMETER", "shard and all_shards exclude each other")
	case all, name == "" && len(g.names) == 1:
		return g.names, nil
	case name == "":
		return nil, Errorf(codes.InvalidArgument, "BAD_PARAMETER", "shard: name one of %q, or say all_shards=true", g.names)
	case !slices.Contains(g.names, name):
		return nil, Errorf(codes.NotFound, "UNKNOWN_SHARD", "shard: %q must be one of %q", name, g.names)
	}
	return []string{name}, nil
}
