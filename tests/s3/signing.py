"""SigV4 by hand, for requests that no SDK would send: every payload mode, and each of its lies."""
import datetime
import hashlib
import hmac
import http.client
from urllib.parse import quote

from store import ACCOUNTS

EMPTY = hashlib.sha256(b"").hexdigest()


class Signer:
    def __init__(self, store, account=0, secret=None, when=None):
        self.host = f"127.0.0.1:{store.port}"
        self.access = ACCOUNTS[account]["access_key"]
        self.secret = secret or ACCOUNTS[account]["secret_key"]
        when = when or datetime.datetime.now(datetime.timezone.utc)
        self.stamp = when.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.stamp[:8]}/us-east-1/s3/aws4_request"
        key = ("AWS4" + self.secret).encode()
        for word in self.scope.split("/"):
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        self.key = key

    def _hmac(self, text):
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()

    def headers(self, method, path, payload_hash, extra=None, query=""):
        """All headers of a request, signed."""
        headers = {"host": self.host, "x-amz-content-sha256": payload_hash, "x-amz-date": self.stamp}
        headers.update({k.lower(): v for k, v in (extra or {}).items()})
        names = ";".join(sorted(headers))
        canonical = "\n".join([method, quote(path, safe="/-_.~"), query, *(f"{k}:{headers[k]}" for k in sorted(headers)), "", names,
                               payload_hash])
        text = "\n".join(["AWS4-HMAC-SHA256", self.stamp, self.scope, hashlib.sha256(canonical.encode()).hexdigest()])
        self.seed = self._hmac(text)
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{self.scope}, SignedHeaders={names}, "
                                    f"Signature={self.seed}")
        return headers

    def chunks(self, pieces, signed=True, trailer=None):
        """An aws-chunked body of `pieces` (the empty last one is added). Call after headers()."""
        body, previous = b"", self.seed
        for piece in [*pieces, b""]:
            line = f"{len(piece):x}"
            if signed:
                previous = self._hmac("\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, self.scope, previous, EMPTY,
                                                 hashlib.sha256(piece).hexdigest()]))
                line += ";chunk-signature=" + previous
            body += line.encode() + b"\r\n" + piece + (b"\r\n" if piece else b"")
        if trailer:
            name, value = trailer
            body += f"{name}:{value}\r\n".encode()
            if signed:
                digest = hashlib.sha256(f"{name}:{value}\n".encode()).hexdigest()
                body += ("x-amz-trailer-signature:" + self._hmac("\n".join(
                    ["AWS4-HMAC-SHA256-TRAILER", self.stamp, self.scope, previous, digest])) + "\r\n").encode()
        return body + b"\r\n"


def send(store, method, path, headers, body=b""):
    """(status, body text) of one request as it is; Content-Length is added unless given."""
    connection = store.connection()
    connection.putrequest(method, quote(path, safe="/-_.~?=&%"), skip_host=True, skip_accept_encoding=True)
    given = {k.lower() for k in headers}
    for name, value in headers.items():
        connection.putheader(name, value)
    if "content-length" not in given and "transfer-encoding" not in given:
        connection.putheader("content-length", str(len(body)))
    try:
        connection.endheaders()
        connection.send(body)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before the body was read
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, text


def send_request(store, method, path, query, lines, body):
    """(status, headers, text) of one request with these header lines, as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    connection.putrequest(method, quote(path, safe="/-_.~") + ("?" + query if query else ""), skip_host=True, skip_accept_encoding=True)
    for name, value in lines:
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(body)))
    connection.endheaders()
    connection.send(body)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text
