import Foundation

/// Posts a V1 notification over a connection of its own once a second, as a store does, and measures the answers.
package struct GenuineSender: Sendable {
    /// What became of one notification.
    package struct Answer: Sendable {
        /// 0 if there was none in time.
        package let status: Int
        package let took: Duration
    }

    private let port: Int
    private let patience: Duration

    package init(port: Int, patience: Duration = .seconds(8)) {
        self.port = port
        self.patience = patience
    }

    /// - Parameter first: Number of the first notification; each has the next one.
    package func run(_ count: Int, first: Int) async throws -> [Answer] {
        var answers: [Answer] = []
        for number in 0..<count {
            let start = ContinuousClock.now
            answers.append(try await post(try V1Body(number: first + number).bytes))
            try await Task.sleep(until: start + .seconds(1))
        }
        return answers
    }

    private func post(_ body: [UInt8]) async throws -> Answer {
        let start = ContinuousClock.now
        var text = ""
        if let connection = try? RawConnection(port: port) {
            connection.write(
                "POST /apple/notifications HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.count)\r\n\r\n"
                    + String(decoding: body, as: UTF8.self))
            while !text.contains("}"), start + patience > .now {
                text += connection.read()
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return Answer(status: status, took: .now - start)
    }
}
