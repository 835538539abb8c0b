package interruption

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Paths and headers of the Instance Metadata Service of AWS, version 2.
const (
	awsToken     = "/latest/api/token"
	awsLifeCycle = "/latest/meta-data/instance-life-cycle"
	awsAction    = "/latest/meta-data/spot/instance-action"

	awsTokenHeader = "X-Aws-Ec2-Metadata-Token"
	awsTTLHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	awsTTL         = "21600" // six hours, the longest
)

// aws is used by one goroutine.
type aws struct {
	client *client
	token  string // empty: none yet
}

// mine: nobody else hands out tokens there.
func (a *aws) mine(ctx context.Context) (bool, error) {
	err := a.renew(ctx)
	return err == nil, err
}

func (a *aws) renew(ctx context.Context) error {
	ans, err := a.client.ask(ctx, askTimeout, http.MethodPut, awsToken, http.Header{awsTTLHeader: {awsTTL}})
	if err != nil {
		return err
	}
	token := strings.TrimSpace(ans.body)
	if ans.status != http.StatusOK || token == "" || len(token) > 1024 {
		return fmt.Errorf("metadata %s: no token: status %d", awsToken, ans.status)
	}
	a.token = token
	return nil
}

// get asks with a token, and with a new one where the old one is not good any more.
func (a *aws) get(ctx context.Context, path string) (answer, error) {
	for renewed := false; ; renewed = true {
		if a.token == "" {
			if err := a.renew(ctx); err != nil {
				return answer{}, err
			}
			renewed = true
		}
		ans, err := a.client.ask(ctx, askTimeout, http.MethodGet, path, http.Header{awsTokenHeader: {a.token}})
		if err != nil || ans.status != http.StatusUnauthorized || renewed {
			return ans, err
		}
		a.token = ""
	}
}

func (a *aws) spare(ctx context.Context) (bool, error) {
	ans, err := a.get(ctx, awsLifeCycle)
	switch {
	case err != nil:
		return false, err
	case ans.status != http.StatusOK:
		return false, ans.unexpected(awsLifeCycle)
	}
	return strings.TrimSpace(ans.body) == "spot", nil
}

func (a *aws) wait(ctx context.Context, interval time.Duration, log *slog.Logger) (Notice, error) {
	trouble := trouble{log: log}
	for {
		n, err := a.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return Notice{}, ctx.Err()
		case n != Notice{}:
			return n, nil
		}
		trouble.note(ctx, err)
		if err := sleep(ctx, interval); err != nil {
			return Notice{}, err
		}
	}
}

// poll asks once; no notice is the zero one.
func (a *aws) poll(ctx context.Context) (Notice, error) {
	ans, err := a.get(ctx, awsAction)
	switch {
	case err != nil:
		return Notice{}, err
	case ans.status == http.StatusNotFound:
		return Notice{}, nil
	case ans.status != http.StatusOK:
		return Notice{}, ans.unexpected(awsAction)
	}
	var said struct {
		Action string    `json:"action"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal([]byte(ans.body), &said); err != nil {
		return Notice{}, fmt.Errorf("metadata %s: %.80q: %w", awsAction, ans.body, err)
	}
	switch said.Action {
	case "terminate", "stop", "hibernate":
		return Notice{Action: said.Action, Deadline: said.Time.UTC()}, nil
	}
	return Notice{}, fmt.Errorf("metadata %s: %.80q is not terminate, stop or hibernate", awsAction, said.Action)
}
