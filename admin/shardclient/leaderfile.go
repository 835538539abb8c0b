package shardclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// leaderFile is what the leader of a shard on this box writes when it takes over.
type leaderFile struct {
	Operator string `json:"operator"`
}

// readLeaderFile returns the operator address in a leader file.
func readLeaderFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var l leaderFile
	if err := json.Unmarshal(data, &l); err != nil {
		return "", fmt.Errorf("leader file %s: %w", path, err)
	}
	if l.Operator == "" {
		return "", errors.New("leader file " + path + ": it names no operator address")
	}
	return l.Operator, nil
}
