extension SimulatedStore.Response {
    static func page(status: Int, _ title: String) -> SimulatedStore.Response {
        SimulatedStore.Response(
            status: status, contentType: "text/html",
            body: Array("<html><body><h1>\(title)</h1></body></html>\n".utf8))
    }

    static func unauthorized(hasText: Bool) -> SimulatedStore.Response {
        SimulatedStore.Response(
            status: 401, contentType: hasText ? "text/plain" : nil, body: hasText ? Array("Unauthenticated\n".utf8) : []
        )
    }

    static func error(_ error: StoreAPIError, retryAfter: String? = nil) -> SimulatedStore.Response {
        SimulatedStore.Response(
            status: error.status, contentType: "application/json", body: error.body, retryAfter: retryAfter)
    }

    private static let paddingBytes = 5 << 20

    static func answer(_ answer: StoreAPIAnswer, _ fault: StoreAPIFault?) -> SimulatedStore.Response {
        var body = answer.body
        if fault == .cutOff { body = Array(body.prefix(body.count * 2 / 3)) }
        if fault == .padded, !body.isEmpty {
            body += [UInt8](repeating: UInt8(ascii: " "), count: paddingBytes)
        }
        return SimulatedStore.Response(
            status: answer.status, contentType: answer.body.isEmpty ? nil : "application/json", body: body,
            isSlow: fault == .slow)
    }
}
