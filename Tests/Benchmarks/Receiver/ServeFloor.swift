import ArgumentParser
import Foundation
import HTTPServer
import Hummingbird
import Logging

/// A server with the listener and the body reader of `subledger serve` and an empty handler. It is a process of its own,
/// so that its processor time is measured separately.
struct ServeFloor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve-floor", shouldDisplay: false)

    func run() async throws {
        let bodies = BodyReader()
        let router = Router(context: BasicRequestContext.self)
        router.post("/apple/notifications") { request, _ in
            let count = try await bodies.withBody(of: request) { $0.count }
            return Response(
                status: .ok, headers: [.contentType: "application/json"],
                body: .init(byteBuffer: ByteBuffer(string: "{\"position\":\(count),\"duplicate\":false}\n")))
        }
        let listener = Listener(
            router, address: ListenAddress(host: "127.0.0.1", port: 0), identity: nil,
            connections: ConnectionTable(limit: 4096, perAddress: 4096, listener: "floor"),
            logger: Logger(label: "floor"),
            onListening: { port in FileHandle.standardOutput.write(Data("port \(port)\n".utf8)) })
        try await listener.run()
    }
}
