import AppStore
import Foundation
import Postgres
import Simulation
import Subscriptions
import TestSupport
import Testing

@testable import Projector

@Suite("Products whose purchases need what their configuration does not say")
struct UnconfiguredProductTests {
    private static func season() -> String {
        let payload = """
            {"transactionId":"77","originalTransactionId":"77","bundleId":"\(SignedBody.app)","productId":"season",\
            "purchaseDate":1573200700000,"type":"Non-Renewing Subscription","environment":"Sandbox","quantity":1,\
            "signedDate":1757000000000}
            """
        return String(decoding: JWSSigner(.standard).sign(Array(payload.utf8)), as: UTF8.self)
    }

    @Test("a paid season without a duration is a defect, a condition and a metric that name it, until it has one")
    func season() async throws {
        try await TestBundle.withServer(apps: [App(bundleId: SignedBody.app)], roots: SignedBody.roots) { server in
            let gateway = try await server.client(with: .submit)
            let body = Array(#"{"signedTransaction":"\#(Self.season())"}"#.utf8)
            let handedIn = try await gateway.post(
                body, to: "/transactions?app=\(SignedBody.app)&environment=sandbox")
            #expect(handedIn.status == 200)
            try await server.isFolded()
            let pool = PostgresPool(
                server.database.with(role: "subledger_projector"), limit: 1, logger: LogRecorder().logger)
            let logs = LogRecorder()
            let watch = GapWatch(pool: pool, logger: logs.logger)

            await watch.look()
            await watch.look()
            let found = await watch.products
            let answer = try await server.subscription("/subscriptions/77?environment=sandbox")
            let view = try await server.sql(
                """
                select concat_ws(' ', original_transaction_id, defect, product_id, position)
                from subledger.subscription_defect
                """)
            let connection = try await TestCluster.connect(server.database)
            try await connection.script(
                """
                insert into subledger.product (app, product_id, kind, duration)
                values ('\(SignedBody.app)', 'season', 'non-renewing', 'P3M')
                """, deadline: .now + .seconds(20))
            await connection.close()
            try await eventually("the product is configured") {
                try await server.sql("select gap from subledger.transaction where gap is not null").isEmpty ? () : nil
            }
            await watch.look()
            let configured = await watch.products
            await pool.close()

            #expect(found.map(\.productId) == ["season"])
            #expect(found.map(\.gap) == [.duration])
            #expect(found.map(\.purchases) == [1])
            #expect(found.map(\.app) == [SignedBody.app])
            #expect(logs.text.components(separatedBy: "product not configured").count == 2)
            let defects = try #require(answer.json["defects"] as? [[String: Any]])
            #expect(defects.map { $0["productId"] as? String } == ["season"])
            #expect(
                defects.map { $0["problem"] as? String }
                    == ["has no configured duration, so its purchases give no access"])
            #expect(view == ["77 duration season 1"])
            #expect(configured.isEmpty)
        }
    }

    @Test("the health knows a product without a duration as soon as a purchase of it is written")
    func soon() async throws {
        try await TestBundle.withServer(apps: [App(bundleId: SignedBody.app)], roots: SignedBody.roots) { server in
            let gateway = try await server.client(with: .submit)

            let handedIn = try await gateway.post(
                Array(#"{"signedTransaction":"\#(Self.season())"}"#.utf8),
                to: "/transactions?app=\(SignedBody.app)&environment=sandbox")

            #expect(handedIn.status == 200)
            let product = try await eventually(within: .seconds(120), "the projector names the product") {
                await server.projector.unconfiguredProducts.first
            }
            #expect(product.productId == "season" && product.gap == .duration)
        }
    }

    @Test("the retry of a plan has one length in figures and in the fold", arguments: ["MONTHLY", "BILLED_UPFRONT"])
    func retryLength(_ plan: String) async throws {
        var transaction = Transaction(transactionId: "1", originalTransactionId: "1")
        transaction.billingPlanType = plan
        let connection = try await TestCluster.connect(try await TestCluster.freshDatabase())
        let rows = try await connection.query(
            Statement("test_retry_length", "select (extract(epoch from analyst.retry_length($1)) * 1000)::bigint"),
            [Parameter(plan)], deadline: .now + .seconds(20))
        let milliseconds: Int64 = try rows[0].value(at: 0)
        await connection.close()

        #expect(milliseconds == transaction.retryMilliseconds)
    }
}
