package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// infoTimeout is how long a shard gets to say who it is, in a list of all.
const infoTimeout = 5 * time.Second

// shardEntry is a shard in the list of all.
type shardEntry struct {
	Shard     string          `json:"shard"`
	Connected bool            `json:"connected"`
	Error     string          `json:"error,omitempty"`
	Leader    string          `json:"leader,omitempty"` // address
	Info      json.RawMessage `json:"info,omitempty"`
}

// listShards says of each shard who leads it, or why that is not known.
func (g *Gateway) listShards(w http.ResponseWriter, r *http.Request) {
	entries := onAll(g, g.names, func(s *shard) shardEntry {
		ctx, cancel := context.WithTimeout(r.Context(), infoTimeout)
		defer cancel()
		entry := shardEntry{Shard: s.Name}
		info, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
		if err == nil {
			entry.Info, err = marshaling.Marshal(info)
		}
		if err != nil {
			entry.Error = status.Convert(err).Message()
			return entry
		}
		entry.Connected = true
		if s.Leader != nil {
			entry.Leader = s.Leader()
		}
		return entry
	})
	writeJSON(w, http.StatusOK, map[string]any{"shards": entries})
}

// onAll asks some shards at once and returns the answers in their order.
func onAll[T any](g *Gateway, names []string, ask func(*shard) T) []T {
	answers := make([]T, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { answers[i] = ask(g.shards[name]) })
	}
	asking.Wait()
	return answers
}

func writeJSON(w http.ResponseWriter, httpStatus int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(append(text, '\n')) // whoever does not read it is gone
}
