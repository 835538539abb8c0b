package components

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// ErrNoSeries means that metadata.yaml does not know the release series of the chart.
var ErrNoSeries = errors.New("metadata.yaml has no release series for this version: add it with the contract that it keeps")

// Write makes the components of the operator whose module is in a directory, and writes
// them with its metadata.yaml into a repository for clusterctl. It returns the path of
// infrastructure-components.yaml:
//
//	REPOSITORY/infrastructure-nstance/v0.1.0/infrastructure-components.yaml
//
// What an earlier run wrote there is replaced.
func Write(operator, repository string) (string, error) {
	made, err := Make(filepath.Join(operator, "charts", Release))
	if err != nil {
		return "", err
	}
	metadata, err := os.ReadFile(filepath.Join(operator, "metadata.yaml"))
	if err != nil {
		return "", err
	}
	if err := covers(metadata, made.Version); err != nil {
		return "", err
	}
	dir := filepath.Join(repository, ProviderValue, made.Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o644); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "infrastructure-components.yaml")
	return path, os.WriteFile(path, made.YAML, 0o644)
}

// covers returns nil if metadata says which contract a version keeps. Errors match
// [ErrNoSeries], or are about the file.
func covers(metadata []byte, version string) error {
	var all struct {
		APIVersion, Kind string
		ReleaseSeries    []struct {
			Major, Minor int
			Contract     string
		}
	}
	if err := yaml.UnmarshalStrict(metadata, &all); err != nil {
		return fmt.Errorf("metadata.yaml: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor); err != nil {
		return fmt.Errorf("version %q of the chart: want MAJOR.MINOR.PATCH: %w", version, err)
	}
	for _, series := range all.ReleaseSeries {
		if series.Major == major && series.Minor == minor && series.Contract != "" {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", version, ErrNoSeries)
}
