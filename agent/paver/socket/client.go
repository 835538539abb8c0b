package socket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"nstance.dev/agent/hostlink/frame"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Client is a conversation with a paver. It is for one goroutine. Make one with [Dial].
type Client struct {
	conn net.Conn
	in   *bufio.Reader
	now  func() time.Time
}

// Dial connects to a paver.
func Dial(ctx context.Context, path, version string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to the paver: %w", err)
	}
	c := &Client{conn, bufio.NewReader(conn), time.Now}
	if err := c.greet(version); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the paver: %w", err), conn.Close())
	}
	return c, nil
}

func (c *Client) greet(version string) error {
	if err := c.conn.SetDeadline(c.now().Add(helloTimeout)); err != nil {
		return err
	}
	hello := &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Hello{Hello: &nstancev1.HostlinkHello{Version: version}}}
	if err := frame.Write(c.conn, hello); err != nil {
		return err
	}
	var first nstancev1.PaverToAgent
	if err := frame.Read(c.in, &first); err != nil {
		return err
	}
	if first.GetHello() == nil {
		return errors.New("it said something else first")
	}
	return c.conn.SetDeadline(time.Time{})
}

// Close ends the conversation.
func (c *Client) Close() error { return c.conn.Close() }

// Take gives work to the paver.
func (c *Client) Take(_ context.Context, w *nstancev1.MachineWork) error {
	if err := c.conn.SetWriteDeadline(c.now().Add(writeTimeout)); err != nil {
		return err
	}
	return frame.Write(c.conn, &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Work{Work: w}})
}

// Next waits for a report.
func (c *Client) Next(ctx context.Context) (*nstancev1.MachineStatus, error) {
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })()
	for {
		var m nstancev1.PaverToAgent
		if err := frame.Read(c.in, &m); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("wait for a report of the paver: %w", err)
		}
		if s := m.GetStatus(); s != nil {
			return s, nil
		}
	}
}
