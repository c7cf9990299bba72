import Simulation

/// Signed texts as StoreKit 2 gives them to an app.
enum DeviceText {
    static let id = "2000000000000001"

    static func transaction(
        _ id: String = id, subscription: String = id, signedAt: Int64 = 1_757_000_000_000, app: String = SignedBody.app,
        environment: String = "Sandbox", revokedAt: Int64? = nil, account: String? = nil,
        signer: JWSSigner = JWSSigner(.standard)
    ) -> String {
        let revocation = revokedAt.map { ",\"revocationDate\":\($0),\"revocationReason\":0" } ?? ""
        let token = account.map { ",\"appAccountToken\":\"\($0)\"" } ?? ""
        return sign(
            """
            {"transactionId":"\(id)","originalTransactionId":"\(subscription)","bundleId":"\(app)",\
            "productId":"monthly","purchaseDate":1573200700000,"expiresDate":1573300000000,\
            "type":"Auto-Renewable Subscription","environment":"\(environment)","price":480000,"currency":"JPY",\
            "deviceVerification":"ZGV2aWNl","signedDate":\(signedAt)\(revocation)\(token)}
            """, signer)
    }

    static func renewal(subscription: String = id, environment: String = "Sandbox") -> String {
        sign(
            """
            {"originalTransactionId":"\(subscription)","productId":"monthly","autoRenewProductId":"monthly",\
            "autoRenewStatus":0,"environment":"\(environment)","signedDate":1757000000000}
            """, JWSSigner(.standard))
    }

    static func appTransaction(createdAt: Int64) -> String {
        sign(
            """
            {"receiptType":"Sandbox","bundleId":"\(SignedBody.app)","applicationVersion":"42",\
            "originalApplicationVersion":"1","originalPurchaseDate":1573200700000,"receiptCreationDate":\(createdAt),\
            "deviceVerificationNonce":"48ccfa42-7431-4f22-9908-7e88983e105a"}
            """, JWSSigner(.standard))
    }

    private static func sign(_ payload: String, _ signer: JWSSigner) -> String {
        String(decoding: signer.sign(Array(payload.utf8)), as: UTF8.self)
    }
}
